/* The library itself, the node's versions, and getting handles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "silicon.h"

nvmlReturn_t nvmlInit_v2(void) { return library_init("nvmlInit"); }
nvmlReturn_t nvmlInit(void) { return library_init("nvmlInit"); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { (void)flags; return library_init("nvmlInit"); }
nvmlReturn_t nvmlShutdown(void) { return library_shutdown(); }

const char *nvmlErrorString(nvmlReturn_t result)
{
    /* The real library's messages, which programs print and people search for. */
    static const char *const texts[] = {
        "Success",
        "Uninitialized",
        "Invalid Argument",
        "Not Supported",
        "Insufficient Permissions",
        "Already Initialized",
        "Not Found",
        "Insufficient Size",
        "Insufficient External Power",
        "Driver Not Loaded",
        "Timeout",
        "Interrupt Request Issue",
        "NVML Shared Library Not Found",
        "Function Not Found",
        "Corrupted infoROM",
        "GPU is lost",
        "GPU requires reset",
        "GPU access blocked by the operating system",
        "Driver/library version mismatch",
        "In use by another client",
        "Insufficient Memory",
        "No data",
        "vGPU ECC not supported",
        "Insufficient Resources",
        "Invalid Frequency",
        "Argument version mismatch",
        "Requested functionality has been deprecated",
        "System is not in ready state",
        "No supported GPUs were found",
        "Resource not in correct state to perform requested operation",
        "Reset type is not supported for given device",
    };
    return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    struct call call;
    return begin_system(&call, __func__, 0) ? end_text(&call, call.node->driver, version, length)
                                            : call.result;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    struct call call;
    char text[48];
    if (!begin_system(&call, __func__, 0))
        return call.result;
    snprintf(text, sizeof text, "%d.%s", call.node->cuda / 1000, call.node->driver);
    return end_text(&call, text, version, length);
}

static nvmlReturn_t cuda_version(const char *name, int *version)
{
    struct call call;
    if (!begin_system(&call, name, 0))
        return call.result;
    if (version == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *version = call.node->cuda;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version("nvmlSystemGetCudaDriverVersion", version);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version("nvmlSystemGetCudaDriverVersion", version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    for (unsigned i = 0; i < call.node->process_count; i++)
        if (call.node->processes[i].pid == pid)
            return end_text(&call, call.node->processes[i].name, name, length);
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (count == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    struct call call;
    if (!begin_system(&call, "nvmlDeviceGetCount", 0))
        return call.result;
    if (count == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    for (unsigned i = 0; i < call.node->gpu_count; i++)
        *count += may_use_gpu(&call.node->gpus[i]);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

/* The handle of a GPU. Getting it attaches to the GPU, so a fault of the GPU first shows here. */
static nvmlReturn_t whole_gpu(const char *name, struct call *call, struct gpu *gpu,
                              nvmlDevice_t *device)
{
    nvmlDevice_t handle = gpu_handle(gpu);
    end(call, NVML_SUCCESS);
    if (!begin_gpu(call, name, handle, WHOLE))
        return call->result;
    start_gpu(call);
    *device = handle;
    return end(call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    struct call call;
    if (!begin_system(&call, "", 0))
        return call.result;
    if (device == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    /* Counted among the GPUs that this process may open. */
    for (unsigned i = 0; i < call.node->gpu_count; i++)
        if (may_use_gpu(&call.node->gpus[i]) && index-- == 0)
            return whole_gpu("nvmlDeviceGetHandleByIndex", &call, &call.node->gpus[i], device);
    return end(&call, NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    struct call call;
    if (!begin_system(&call, "", 0))
        return call.result;
    if (device == NULL || serial == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < call.node->gpu_count; i++)
        if (strcmp(call.node->gpus[i].board, serial) == 0 && may_use_gpu(&call.node->gpus[i]))
            return whole_gpu(__func__, &call, &call.node->gpus[i], device);
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (device == NULL || uuid == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < call.node->gpu_count; i++) {
        struct gpu *gpu = &call.node->gpus[i];
        if (!may_use_gpu(gpu))
            continue;
        if (strcmp(gpu->uuid, uuid) == 0)
            return whole_gpu(__func__, &call, gpu, device);
        for (unsigned g = 0; gpu->mig && g < gpu->count; g++)
            for (unsigned c = 0; c < gpu->instances[g].count; c++) {
                const struct compute_instance *ci = &gpu->instances[g].computes[c];
                if (strcmp(ci->uuid, uuid) == 0 &&
                    may_use_mig_device(call.node, gpu, &gpu->instances[g], ci)) {
                    *device = mig_handle(call.node, gpu, ci);
                    return end(&call, device->handle == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
                }
            }
    }
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    struct call call;
    unsigned domain = 0, bus, slot;
    if (!begin_system(&call, "", 0))
        return call.result;
    /* With or without a domain of four or eight digits; case-insensitive. */
    if (device == NULL || bus_id == NULL ||
        (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
         (domain = 0, sscanf(bus_id, "%x:%x", &bus, &slot)) != 2))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < call.node->gpu_count; i++) {
        struct gpu *gpu = &call.node->gpus[i];
        if (gpu->domain == domain && gpu->bus == bus && gpu->slot == slot && may_use_gpu(gpu))
            return whole_gpu("nvmlDeviceGetHandleByPciBusId", &call, gpu, device);
    }
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}
