/* MIG mode and MIG devices. */
#include "silicon.h"

/* Any client is in the way, also one that only watches: "In use by another client". Source: NVIDIA
 * MIG user guide, "Enable MIG Mode". */
static bool gpu_busy(const struct call *call)
{
    for (unsigned i = 0; i < call->node->process_count; i++)
        if (call->node->processes[i].gpu == call->gpu->index)
            return true;
    return open_elsewhere(call->gpu);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (call.gpu->model->mig == MIG_NONE)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (current == NULL || pending == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *current = call.gpu->mig;
    *pending = call.gpu->pending;
    return end(&call, NVML_SUCCESS);
}

/* Ampere needs a GPU reset, which with pass-through means a reboot: the mode stays pending, and
 * RESET_REQUIRED is returned. From Hopper on the mode changes at once, unless the GPU is in use.
 * Disabling it destroys all instances. */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE | PRIVILEGED | CHANGES))
        return call.result;
    if (call.gpu->model->mig == MIG_NONE)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (mode > 1 || activation == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *activation = NVML_SUCCESS;
    call.gpu->pending = mode == 1;
    if (call.gpu->pending == call.gpu->mig)
        return end_changed(&call);
    if (gpu_busy(&call))
        *activation = NVML_ERROR_IN_USE;
    else if (call.gpu->model->mig == MIG_AFTER_RESET)
        *activation = NVML_ERROR_RESET_REQUIRED;
    else {
        call.gpu->mig = call.gpu->pending;
        call.gpu->count = 0;
    }
    return end_changed(&call);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (count == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = call.gpu->mig ? call.gpu->model->slices : 0;
    return end(&call, NVML_SUCCESS);
}

/* The index of a MIG device does not change: destroying one leaves a gap. With MIG off, no index is
 * one: NOT_FOUND. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *mig)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (call.gpu->model->mig == MIG_NONE)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (mig == NULL || (call.gpu->mig && index >= call.gpu->model->slices))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned g = 0; call.gpu->mig && g < call.gpu->count; g++)
        for (unsigned c = 0; c < call.gpu->instances[g].count; c++)
            if (call.gpu->instances[g].computes[c].index == index &&
                may_use_mig_device(call.node, call.gpu, &call.gpu->instances[g],
                                   &call.gpu->instances[g].computes[c])) {
                *mig = mig_handle(call.node, call.gpu, &call.gpu->instances[g].computes[c]);
                return end(&call, mig->handle == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
            }
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, EITHER))
        return call.result;
    if (is_mig == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *is_mig = call.ci != NULL;
    return end(&call, NVML_SUCCESS);
}

/* For MIG devices only; a GPU's handle is an invalid argument. */
static bool begin_mig(struct call *call, const char *name, nvmlDevice_t mig, const void *answer)
{
    if (!begin_gpu(call, name, mig, MIG))
        return false;
    if (answer != NULL)
        return true;
    call->result = end(call, NVML_ERROR_INVALID_ARGUMENT);
    return false;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    struct call call;
    if (!begin_mig(&call, __func__, mig, device))
        return call.result;
    *device = gpu_handle(call.gpu);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *id)
{
    struct call call;
    if (!begin_mig(&call, __func__, mig, id))
        return call.result;
    *id = call.gi->id;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *id)
{
    struct call call;
    if (!begin_mig(&call, __func__, mig, id))
        return call.result;
    *id = call.ci->id;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)
{
    struct call call;
    if (!begin_gpu(&call, "nvmlDeviceGetAttributes", mig, EITHER))
        return call.result;
    if (call.ci == NULL)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (attributes == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct slice *slice = call.gi->slice;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = compute_sms(call.gpu->model, slice, call.ci->size),
        .sharedCopyEngineCount = slice->copies,
        .sharedDecoderCount = slice->decoders,
        .sharedEncoderCount = slice->encoders,
        .sharedJpegCount = slice->jpegs,
        .sharedOfaCount = slice->ofas,
        .gpuInstanceSliceCount = slice->slices,
        .computeInstanceSliceCount = call.ci->size,
        .memorySizeMB = slice->memory_mib,
    };
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)
{
    return nvmlDeviceGetAttributes_v2(mig, attributes);
}
