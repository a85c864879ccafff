/* cuInit, what the process knows of the node, injected faults, and the names of errors. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_process.h"

struct cuda_device devices[MAX_DEVICES];
int device_count;

static struct node node;
static bool initialized;
static CUresult sticky;

int driver_cuda(void) { return node.cuda; }

CUresult ready(void)
{
    return !initialized ? CUDA_ERROR_NOT_INITIALIZED : sticky;
}

CUresult spoil(CUresult code)
{
    sticky = code;
    return code;
}

/* --- injected faults --- */

static struct injection *find_injection(const char *name, const struct cuda_device *device)
{
    for (unsigned i = 0; i < node.injection_count; i++) {
        struct injection *injection = &node.injections[i];
        if (injection->times == 0 || strcmp(injection->call, name) != 0)
            continue;
        if (device == NULL ? injection->gpu < 0 && *injection->uuid == '\0'
                           : (injection->gpu < 0 || injection->gpu == (long)device->gpu) &&
                                 (*injection->uuid == '\0' ||
                                  strcmp(injection->uuid, device->uuid) == 0))
            return injection;
    }
    return NULL;
}

static void use_up(const char *name, const struct cuda_device *device)
{
    int lock = state_lock();
    if (lock < 0)
        return; /* not root: only root counts faults down */
    struct injection *injection =
        state_refresh(&node) == NVML_SUCCESS ? find_injection(name, device) : NULL;
    if (injection != NULL && injection->times > 0) {
        injection->times--;
        state_write(&node);
    }
    close(lock);
}

CUresult fault(const char *name, const struct cuda_device *device)
{
    if (state_refresh(&node) != NVML_SUCCESS)
        return CUDA_ERROR_UNKNOWN;
    struct injection *injection = find_injection(name, device);
    if (injection == NULL)
        return CUDA_SUCCESS;
    CUresult code = (CUresult)injection->code;
    struct timespec left = {.tv_sec = injection->delay_ms / 1000,
                            .tv_nsec = injection->delay_ms % 1000 * 1000000};
    if (injection->times > 0)
        use_up(name, device);
    while (nanosleep(&left, &left) != 0)
        ;
    return code;
}

/* --- the node --- */

unsigned compute_mode(const struct cuda_device *device)
{
    return (unsigned)node.gpus[device->gpu].health[HEALTH_compute_mode];
}

bool used_by_others(const struct cuda_device *device)
{
    for (unsigned i = 0; i < node.process_count; i++) {
        const struct process *process = &node.processes[i];
        if (process->gpu == device->gpu && process->pid != (unsigned)getpid() &&
            (device->gi == NO_INSTANCE || process->gi == device->gi))
            return true;
    }
    return false;
}

/* A health value by name; `absent` if health.def does not have it. */
static long long health_of(const struct gpu *gpu, const char *name, long long absent)
{
    static const char *const names[HEALTH_COUNT] = {
#define HEALTH(name, well) #name,
#include "../library/health.def"
#undef HEALTH
    };
    for (int key = 0; key < HEALTH_COUNT; key++)
        if (strcmp(names[key], name) == 0)
            return gpu->health[key];
    return absent;
}

/* Eight Ampere or Hopper GPUs of a board are joined by NVSwitches, which Fabric Manager sets up.
 * GB200 and GB300 machines have their switches in the rack, and no Fabric Manager. */
static bool has_switches(const struct gpu *gpu)
{
    enum { AMPERE = 7, LINKS_OF_AMPERE = 12, LINKS = 18, GPUS_OF_A_BOARD = 8 };
    unsigned links = gpu->model->architecture == AMPERE ? LINKS_OF_AMPERE : LINKS;
    return node.gpu_count >= GPUS_OF_A_BOARD && gpu->model->nvlinks == links &&
           strncmp(gpu->model->key, "GB", 2) != 0;
}

/* Without Fabric Manager no program starts, also on GPUs whose latched state is "completed". The
 * code of a probe under way is of CUDA 13. Source: NVIDIA Fabric Manager user guide. */
static CUresult fault_of_fabric(void)
{
    enum { IN_PROGRESS = 2, COMPLETED = 3, FABRIC_CODE_FROM = 13000 };
    for (int i = 0; i < device_count; i++) {
        const struct gpu *gpu = &node.gpus[devices[i].gpu];
        if (!has_switches(gpu))
            continue;
        long long state = health_of(gpu, "fabric_state", COMPLETED);
        if (state == IN_PROGRESS && node.cuda >= FABRIC_CODE_FROM)
            return CUDA_ERROR_FABRIC_NOT_READY;
        if (state != COMPLETED || health_of(gpu, "fabric_manager", 1) == 0)
            return CUDA_ERROR_SYSTEM_NOT_READY;
    }
    return CUDA_SUCCESS;
}

/* A fault of one device at cuInit is one of the process that sees the device. */
static CUresult fault_of_init(void)
{
    CUresult code = fault("cuInit", NULL);
    for (int i = 0; code == CUDA_SUCCESS && i < device_count; i++)
        code = fault("cuInit", &devices[i]);
    return code;
}

/* CUDA opens every GPU that it may, whichever are visible. Source: NVIDIA, "Improving CUDA
 * Initialization Times Using cgroups". */
static void start_gpus(void)
{
    long long ms = 0;
    for (unsigned i = 0; i < node.gpu_count; i++)
        if (!node.gpus[i].lost && may_use_gpu(&node.gpus[i]))
            ms += open_gpu(&node, &node.gpus[i]);
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (initialized)
        return CUDA_SUCCESS;
    if (state_refresh(&node) != NVML_SUCCESS || !may_open("nvidiactl"))
        return CUDA_ERROR_NO_DEVICE;
    /* Beside the nodes that NVML opens, CUDA opens that of its memory manager. */
    if (!may_open("nvidia-uvm"))
        return CUDA_ERROR_UNKNOWN;
    start_gpus();
    device_count = list_devices(&node);
    CUresult code = fault_of_init();
    if (code == CUDA_SUCCESS)
        code = fault_of_fabric();
    if (code == CUDA_SUCCESS && device_count == 0)
        code = CUDA_ERROR_NO_DEVICE;
    initialized = code == CUDA_SUCCESS;
    return code;
}

CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (state_refresh(&node) != NVML_SUCCESS)
        return CUDA_ERROR_UNKNOWN;
    *version = node.cuda;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    static const struct { CUresult code; const char *name; } names[] = {
#define CUDA_CODE(code, name) {code, #name},
#include "errors.def"
#undef CUDA_CODE
    };
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) {
            *name = names[i].name;
            return CUDA_SUCCESS;
        }
    if (name != NULL)
        *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
