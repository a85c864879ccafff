/* GPU instances: profiles, placements, creating and destroying. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "silicon.h"

enum { PROFILES = 17 };

static bool mig_capable(const struct call *call)
{
    return call->gpu->model->mig != MIG_NONE;
}

/* --- profiles --- */

/* Drivers up to R535 list profiles only while MIG mode is enabled. */
static nvmlReturn_t profiles_known(const struct call *call)
{
    return mig_capable(call) && (call->gpu->mig || atoi(call->node->driver) > 535)
               ? NVML_SUCCESS
               : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    nvmlReturn_t known = profiles_known(&call);
    if (known != NVML_SUCCESS)
        return end(&call, known);
    if (info == NULL || profile >= PROFILES)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct slice *slice = slice_by_profile(call.gpu->model, profile);
    if (slice == NULL)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    *info = (nvmlGpuInstanceProfileInfo_t){
        .id = slice->id,
        .isP2pSupported = slice->capabilities & 1,
        .sliceCount = slice->slices,
        .instanceCount = slice->most,
        .multiprocessorCount = slice->sms,
        .copyEngineCount = slice->copies,
        .decoderCount = slice->decoders,
        .encoderCount = slice->encoders,
        .jpegCount = slice->jpegs,
        .ofaCount = slice->ofas,
        .memorySizeMB = slice->memory_mib,
    };
    return end(&call, NVML_SUCCESS);
}

/* Version 2 and 3 come through one function, distinguished by the version that the caller wrote:
 * sizeof | version << 24. Drivers answer with a version of 0. */
static nvmlReturn_t named_profile(struct call *call, const struct slice *slice,
                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (info->version == (sizeof(nvmlGpuInstanceProfileInfo_v2_t) | 2u << 24)) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){
            .id = slice->id,
            .isP2pSupported = slice->capabilities & 1,
            .sliceCount = slice->slices,
            .instanceCount = slice->most,
            .multiprocessorCount = slice->sms,
            .copyEngineCount = slice->copies,
            .decoderCount = slice->decoders,
            .encoderCount = slice->encoders,
            .jpegCount = slice->jpegs,
            .ofaCount = slice->ofas,
            .memorySizeMB = slice->memory_mib,
        };
        snprintf(info->name, sizeof info->name, "MIG %s", slice->name);
        return end(call, NVML_SUCCESS);
    }
    if (info->version == (sizeof(nvmlGpuInstanceProfileInfo_v3_t) | 3u << 24)) {
        nvmlGpuInstanceProfileInfo_v3_t *v3 = (void *)info;
        *v3 = (nvmlGpuInstanceProfileInfo_v3_t){
            .id = slice->id,
            .sliceCount = slice->slices,
            .instanceCount = slice->most,
            .multiprocessorCount = slice->sms,
            .copyEngineCount = slice->copies,
            .decoderCount = slice->decoders,
            .encoderCount = slice->encoders,
            .jpegCount = slice->jpegs,
            .ofaCount = slice->ofas,
            .memorySizeMB = slice->memory_mib,
        };
        /* As the driver 580.159.04 does on an H100 and an H200: it writes the name where version 2
         * has it, and takes it for version 2's fields in what it has written so far. So a caller
         * that reads version 3's name finds an empty one. */
        snprintf(info->name, sizeof info->name, "MIG %ug.0gb%s", slice->most,
                 strstr(slice->name, "gb") + 2);
        v3->capabilities = slice->capabilities;
        return end(call, NVML_SUCCESS);
    }
    return end(call, NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    nvmlReturn_t known = profiles_known(&call);
    if (known != NVML_SUCCESS)
        return end(&call, known);
    if (info == NULL || profile >= PROFILES)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct slice *slice = slice_by_profile(call.gpu->model, profile);
    return slice == NULL ? end(&call, NVML_ERROR_NOT_SUPPORTED) : named_profile(&call, slice, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (!mig_capable(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    const struct slice *slice = slice_by_id(call.gpu->model, id);
    if (info == NULL || slice == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    return named_profile(&call, slice, info);
}

/* --- placements --- */

static unsigned slots(const struct slice *slice, unsigned start)
{
    return ((1u << slice->size) - 1) << start;
}

/* Whether one more `slice` at `start` leaves every budget of the GPU kept: memory slots, compute
 * slices, media engines, the profile's own maximum. */
static bool fits(const struct gpu *gpu, const struct slice *slice, unsigned start)
{
    const struct slice *whole = slice_whole(gpu->model);
    unsigned taken = 0, same = 0, compute = slice->slices, decoders = slice->decoders,
             encoders = slice->encoders, jpegs = slice->jpegs, ofas = slice->ofas;
    for (unsigned i = 0; i < gpu->count; i++) {
        const struct slice *other = gpu->instances[i].slice;
        taken |= slots(other, gpu->instances[i].start);
        same += other->id == slice->id;
        compute += other->slices;
        decoders += other->decoders;
        encoders += other->encoders;
        jpegs += other->jpegs;
        ofas += other->ofas;
    }
    return (taken & slots(slice, start)) == 0 && same < slice->most && compute <= whole->slices &&
           decoders <= whole->decoders && encoders <= whole->encoders && jpegs <= whole->jpegs &&
           ofas <= whole->ofas && gpu->count < MAX_GPU_INSTANCES;
}

/* The driver's own choice: the highest start that is free. Order effects follow from it (1g, 1g,
 * 2g, 3g fails where 3g, 1g, 2g, 1g works). */
static bool choose(const struct gpu *gpu, const struct slice *slice, unsigned *start)
{
    for (int at = (int)gpu->model->slots - 1; at >= 0; at--)
        if (slice->starts >> at & 1 && fits(gpu, slice, (unsigned)at)) {
            *start = (unsigned)at;
            return true;
        }
    return false;
}

/* The driver numbers instances by their place in the tree of halves: 0 the whole, 1 and 2 the
 * halves (upper first), 3 to 6 the quarters, 7 to 14 the eighths. */
static unsigned place_in_tree(const struct model *model, const struct slice *slice, unsigned start)
{
    unsigned parts = model->slots / slice->size;
    if (parts < 2)
        return 0;
    return parts - 1 + (parts == 2 ? 1 - start / slice->size : start / slice->size);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                           nvmlGpuInstancePlacement_t *placements,
                                                           unsigned int *count)
{
    struct call call;
    if (!begin_gpu(&call, "nvmlDeviceGetGpuInstancePossiblePlacements", device, WHOLE | MONITORS))
        return call.result;
    if (!mig_capable(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    const struct slice *slice = slice_by_id(call.gpu->model, id);
    if (count == NULL || slice == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned capacity = *count, found = 0;
    for (unsigned start = 0; start < call.gpu->model->slots; start++)
        if (slice->starts >> start & 1) {
            if (placements != NULL && found < capacity)
                placements[found] =
                    (nvmlGpuInstancePlacement_t){.start = start, .size = slice->size};
            found++;
        }
    *count = found;
    return end(&call, placements != NULL && found > capacity ? NVML_ERROR_INSUFFICIENT_SIZE
                                                             : NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
                                                        nvmlGpuInstancePlacement_t *placements,
                                                        unsigned int *count)
{
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, id, placements, count);
}

static void place(struct node *node, struct gpu *gpu, const struct slice *slice, unsigned start)
{
    gpu->instances[gpu->count++] =
        (struct gpu_instance){.slice = slice,
                              .id = place_in_tree(gpu->model, slice, start),
                              .start = start,
                              .serial = ++node->serial};
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id,
                                                       unsigned int *count)
{
    struct call call;
    unsigned start;
    if (!begin_gpu(&call, __func__, device, WHOLE | MONITORS))
        return call.result;
    if (!mig_capable(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    const struct slice *slice = slice_by_id(call.gpu->model, id);
    if (count == NULL || slice == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    /* Counted by placing instances in a copy; with MIG off there is none yet. */
    struct gpu copy = *call.gpu;
    if (!copy.mig)
        copy.count = 0;
    struct node scratch = {.serial = call.node->serial};
    for (*count = 0; choose(&copy, slice, &start); (*count)++)
        place(&scratch, &copy, slice, start);
    return end(&call, NVML_SUCCESS);
}

/* --- creating and destroying --- */

static nvmlReturn_t create(const char *name, nvmlDevice_t device, unsigned id,
                           const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *instance)
{
    struct call call;
    unsigned start;
    if (!begin_gpu(&call, name, device, WHOLE | PRIVILEGED | CHANGES))
        return call.result;
    if (!mig_capable(&call) || !call.gpu->mig)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    const struct slice *slice = slice_by_id(call.gpu->model, id);
    if (instance == NULL || slice == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (placement != NULL) {
        start = placement->start;
        if (placement->size != slice->size || start >= call.gpu->model->slots ||
            !(slice->starts >> start & 1))
            return end(&call, NVML_ERROR_INVALID_ARGUMENT);
        if (!fits(call.gpu, slice, start))
            return end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    } else if (!choose(call.gpu, slice, &start))
        return end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    place(call.node, call.gpu, slice, start);
    make_capability_node(call.node, call.gpu, &call.gpu->instances[call.gpu->count - 1], NULL);
    *instance = gpu_instance_handle(call.node, call.gpu, &call.gpu->instances[call.gpu->count - 1]);
    return end_created(&call, instance->handle);
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id,
                                         nvmlGpuInstance_t *instance)
{
    return create(__func__, device, id, NULL, instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *instance)
{
    static const nvmlGpuInstancePlacement_t nowhere = {.start = NO_INSTANCE, .size = 0};
    return create(__func__, device, id, placement != NULL ? placement : &nowhere, instance);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    struct call call;
    if (!begin_gpu_instance(&call, __func__, instance, PRIVILEGED | CHANGES))
        return call.result;
    if (call.gi->count > 0)
        return end(&call, NVML_ERROR_IN_USE);
    size_t after = (size_t)(&call.gpu->instances[call.gpu->count] - (call.gi + 1));
    memmove(call.gi, call.gi + 1, after * sizeof *call.gi);
    call.gpu->count--;
    return end_changed(&call);
}

/* --- finding --- */

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id,
                                       nvmlGpuInstance_t *instances, unsigned int *count)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE | MONITORS))
        return call.result;
    if (!mig_capable(&call) || !call.gpu->mig)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (instances == NULL || count == NULL || slice_by_id(call.gpu->model, id) == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    /* There is no size argument: the caller's array holds as many as the profile allows. */
    *count = 0;
    for (unsigned i = 0; i < call.gpu->count; i++)
        if (call.gpu->instances[i].slice->id == id)
            instances[(*count)++] =
                gpu_instance_handle(call.node, call.gpu, &call.gpu->instances[i]);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
                                          nvmlGpuInstance_t *instance)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE | MONITORS))
        return call.result;
    if (!mig_capable(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (instance == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; call.gpu->mig && i < call.gpu->count; i++)
        if (call.gpu->instances[i].id == id) {
            *instance = gpu_instance_handle(call.node, call.gpu, &call.gpu->instances[i]);
            return end(&call, NVML_SUCCESS);
        }
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    struct call call;
    if (!begin_gpu_instance(&call, __func__, instance, 0))
        return call.result;
    if (info == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlGpuInstanceInfo_t){
        .device = gpu_handle(call.gpu),
        .id = call.gi->id,
        .profileId = call.gi->slice->id,
        .placement = {.start = call.gi->start, .size = call.gi->slice->size}};
    return end(&call, NVML_SUCCESS);
}
