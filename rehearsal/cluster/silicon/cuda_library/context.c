/* Primary contexts: who may have one, what it costs, and its simulated clock. */
#include "cuda_process.h"

enum { PROHIBITED = 2, EXCLUSIVE_PROCESS = 3 };
/* MiB of a context: it grows with the multiprocessors (inferred from reports of whole GPUs). */
enum { CONTEXT_MIB = 8, CONTEXT_MIB_PER_SM = 3 };

static struct CUctx_st {
    unsigned references;
    double now_ms;
} contexts[MAX_DEVICES];
static int current_device = -1;

const struct cuda_device *current(void)
{
    return current_device < 0 || contexts[current_device].references == 0
               ? NULL
               : &devices[current_device];
}

unsigned long long context_bytes(const struct cuda_device *device)
{
    return (unsigned long long)(CONTEXT_MIB + CONTEXT_MIB_PER_SM * device->sms) * MIB;
}

double *clock_ms(void) { return &contexts[current_device].now_ms; }

/* The memory's bandwidth, of which an instance has the share of its slots; 90 % is reached. */
double bytes_per_ms(const struct cuda_device *device)
{
    double bytes_per_s = 2e6 * device->model->memory_mhz * device->model->bus_bits / 8;
    unsigned slots = device->model->slots == 0 ? 1 : device->model->slots;
    return 0.9 * bytes_per_s / 1000 * device->slots / slots;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (number < 0 || number >= device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    const struct cuda_device *device = &devices[number];
    if ((code = fault("cuDevicePrimaryCtxRetain", device)) != CUDA_SUCCESS)
        return code;
    unsigned mode = compute_mode(device);
    if (mode == PROHIBITED || (mode == EXCLUSIVE_PROCESS && used_by_others(device)))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (device->held + context_bytes(device) > device->memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    contexts[number].references++;
    *context = &contexts[number];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number)
{
    if (number < 0 || number >= device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    if (contexts[number].references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--contexts[number].references == 0) {
        free_memory(&devices[number]);
        contexts[number].now_ms = 0;
    }
    return ready();
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (context != NULL && (context < contexts || context >= contexts + MAX_DEVICES))
        return CUDA_ERROR_INVALID_CONTEXT;
    current_device = context == NULL ? -1 : (int)(context - contexts);
    return CUDA_SUCCESS;
}

/* Errors of launched kernels arrive here, and spoil the process. */
CUresult cuCtxSynchronize(void)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    code = fault("cuCtxSynchronize", current());
    return code == CUDA_SUCCESS ? code : spoil(code);
}
