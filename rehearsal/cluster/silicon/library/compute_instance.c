/* Compute instances: the part of a GPU instance that programs run on. */
#include <stdio.h>
#include <string.h>

#include "silicon.h"

enum { PROFILES = 9 };

/* Profile enum -> slices; the id that NVML gives a profile counts the sizes from the smallest. */
static const struct {
    unsigned profile, id, slices;
} sizes[] = {{0, 0, 1}, {1, 1, 2}, {2, 2, 3}, {3, 3, 4}, {4, 4, 7}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* The profile enum of GPU instances with as many slices. */
static unsigned profile_of(unsigned slices) { return slices < 4 ? slices - 1 : 3; }

static bool offered(const struct call *call, unsigned slices)
{
    if (slices > call->gi->slice->slices)
        return false;
    /* Without a GPU instance profile of this size there is no compute instance profile either: no 3
     * slices on an A30. */
    return slices == call->gi->slice->slices ||
           slice_by_profile(call->gpu->model, profile_of(slices)) != NULL;
}

static unsigned starts(unsigned slices)
{
    /* In compute slices of the GPU instance, aligned as GPU instances are in memory. */
    return slices == 1 ? 0x7F : slices == 2 ? 0x15 : slices == 3 ? 0x11 : 0x01;
}

static unsigned most(const struct call *call, unsigned slices)
{
    unsigned count = 0;
    for (unsigned start = 0; start + slices <= call->gi->slice->slices; start++)
        count += starts(slices) >> start & 1;
    return count;
}

unsigned compute_sms(const struct model *model, const struct slice *slice, unsigned slices)
{
    if (slices == slice->slices)
        return slice->sms;
    const struct slice *alone = slice_by_profile(model, profile_of(slices));
    return alone == NULL ? slice->sms * slices / slice->slices : alone->sms;
}

/* --- profiles --- */

static nvmlReturn_t size_of_profile(const struct call *call, unsigned profile, unsigned engine,
                                    unsigned *at)
{
    if (profile >= PROFILES || engine != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (*at = 0; *at < SIZES; (*at)++)
        if (sizes[*at].profile == profile)
            return offered(call, sizes[*at].slices) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance,
                                                          unsigned int profile, unsigned int engine,
                                                          nvmlComputeInstanceProfileInfo_t *info)
{
    struct call call;
    unsigned at;
    if (!begin_gpu_instance(&call, __func__, instance, 0))
        return call.result;
    nvmlReturn_t result =
        info == NULL ? NVML_ERROR_INVALID_ARGUMENT : size_of_profile(&call, profile, engine, &at);
    if (result != NVML_SUCCESS)
        return end(&call, result);
    const struct slice *slice = call.gi->slice;
    *info = (nvmlComputeInstanceProfileInfo_t){
        .id = sizes[at].id,
        .sliceCount = sizes[at].slices,
        .instanceCount = most(&call, sizes[at].slices),
        .multiprocessorCount = compute_sms(call.gpu->model, slice, sizes[at].slices),
        .sharedCopyEngineCount = slice->copies,
        .sharedDecoderCount = slice->decoders,
        .sharedEncoderCount = slice->encoders,
        .sharedJpegCount = slice->jpegs,
        .sharedOfaCount = slice->ofas,
    };
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t
nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
                                              unsigned int engine,
                                              nvmlComputeInstanceProfileInfo_v2_t *info)
{
    struct call call;
    unsigned at;
    if (!begin_gpu_instance(&call, __func__, instance, 0))
        return call.result;
    nvmlReturn_t result =
        info == NULL ? NVML_ERROR_INVALID_ARGUMENT : size_of_profile(&call, profile, engine, &at);
    if (result != NVML_SUCCESS)
        return end(&call, result);
    bool v2 = info->version == (sizeof(nvmlComputeInstanceProfileInfo_v2_t) | 2u << 24),
         v3 = info->version == (sizeof(nvmlComputeInstanceProfileInfo_v3_t) | 3u << 24);
    if (!v2 && !v3)
        return end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const struct slice *slice = call.gi->slice;
    /* Version 3 is version 2 with one more word at the end. */
    *info = (nvmlComputeInstanceProfileInfo_v2_t){
        .version = info->version,
        .id = sizes[at].id,
        .sliceCount = sizes[at].slices,
        .instanceCount = most(&call, sizes[at].slices),
        .multiprocessorCount = compute_sms(call.gpu->model, slice, sizes[at].slices),
        .sharedCopyEngineCount = slice->copies,
        .sharedDecoderCount = slice->decoders,
        .sharedEncoderCount = slice->encoders,
        .sharedJpegCount = slice->jpegs,
        .sharedOfaCount = slice->ofas,
    };
    if (sizes[at].slices == slice->slices)
        snprintf(info->name, sizeof info->name, "MIG %s", slice->name);
    else
        snprintf(info->name, sizeof info->name, "MIG %uc.%s", sizes[at].slices, slice->name);
    if (v3)
        ((nvmlComputeInstanceProfileInfo_v3_t *)(void *)info)->capabilities = slice->capabilities;
    return end(&call, NVML_SUCCESS);
}

/* --- placements --- */

static bool size_of_id(const struct call *call, unsigned id, unsigned *slices)
{
    for (unsigned at = 0; at < SIZES; at++)
        if (sizes[at].id == id && offered(call, sizes[at].slices)) {
            *slices = sizes[at].slices;
            return true;
        }
    return false;
}

static unsigned taken(const struct gpu_instance *gi)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < gi->count; i++)
        mask |= ((1u << gi->computes[i].size) - 1) << gi->computes[i].start;
    return mask;
}

static bool choose(const struct gpu_instance *gi, unsigned mask, unsigned slices, unsigned *start)
{
    for (*start = 0; *start + slices <= gi->slice->slices; (*start)++)
        if (starts(slices) >> *start & 1 && (mask & ((1u << slices) - 1) << *start) == 0)
            return true;
    return false;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance,
                                                                unsigned int id,
                                                                unsigned int *count)
{
    struct call call;
    unsigned slices, start;
    if (!begin_gpu_instance(&call, __func__, instance, MONITORS))
        return call.result;
    if (count == NULL || !size_of_id(&call, id, &slices))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned mask = taken(call.gi);
    for (*count = 0; choose(call.gi, mask, slices, &start); (*count)++)
        mask |= ((1u << slices) - 1) << start;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t
nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int id,
                                                    nvmlComputeInstancePlacement_t *placements,
                                                    unsigned int *count)
{
    struct call call;
    unsigned slices;
    if (!begin_gpu_instance(&call, __func__, instance, MONITORS))
        return call.result;
    if (count == NULL || !size_of_id(&call, id, &slices))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned capacity = *count, found = 0;
    for (unsigned start = 0; start + slices <= call.gi->slice->slices; start++)
        if (starts(slices) >> start & 1) {
            if (placements != NULL && found < capacity)
                placements[found] =
                    (nvmlComputeInstancePlacement_t){.start = start, .size = slices};
            found++;
        }
    *count = found;
    return end(&call, placements != NULL && found > capacity ? NVML_ERROR_INSUFFICIENT_SIZE
                                                             : NVML_SUCCESS);
}

/* --- creating and destroying --- */

static unsigned free_id(const struct gpu_instance *gi)
{
    unsigned used = 0, id = 0;
    for (unsigned i = 0; i < gi->count; i++)
        used |= 1u << gi->computes[i].id;
    while (used >> id & 1)
        id++;
    return id;
}

static unsigned free_index(const struct gpu *gpu)
{
    unsigned used = 0, index = 0;
    for (unsigned g = 0; g < gpu->count; g++)
        for (unsigned c = 0; c < gpu->instances[g].count; c++)
            used |= 1u << gpu->instances[g].computes[c].index;
    while (used >> index & 1)
        index++;
    return index;
}

static nvmlReturn_t create(const char *name, nvmlGpuInstance_t instance, unsigned id,
                           const nvmlComputeInstancePlacement_t *placement,
                           nvmlComputeInstance_t *compute)
{
    struct call call;
    unsigned slices, start;
    if (!begin_gpu_instance(&call, name, instance, PRIVILEGED | CHANGES))
        return call.result;
    if (compute == NULL || !size_of_id(&call, id, &slices))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (placement != NULL) {
        start = placement->start;
        if (placement->size != slices || start >= call.gi->slice->slices ||
            start + slices > call.gi->slice->slices || !(starts(slices) >> start & 1))
            return end(&call, NVML_ERROR_INVALID_ARGUMENT);
        if (taken(call.gi) & ((1u << slices) - 1) << start)
            return end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    } else if (!choose(call.gi, taken(call.gi), slices, &start))
        return end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    unsigned free_for_it = free_id(call.gi), index = free_index(call.gpu);
    struct compute_instance *ci = &call.gi->computes[call.gi->count++];
    *ci = (struct compute_instance){.id = free_for_it,
                                    .profile = id,
                                    .start = start,
                                    .size = slices,
                                    .index = index,
                                    .serial = ++call.node->serial};
    make_uuid(call.node, ci->serial, "MIG", ci->uuid);
    make_capability_node(call.node, call.gpu, call.gi, ci);
    *compute = compute_instance_handle(call.node, call.gpu, ci);
    return end_created(&call, compute->handle);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id,
                                                  nvmlComputeInstance_t *compute)
{
    return create(__func__, instance, id, NULL, compute);
}

nvmlReturn_t
nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
                                                  const nvmlComputeInstancePlacement_t *placement,
                                                  nvmlComputeInstance_t *compute)
{
    static const nvmlComputeInstancePlacement_t nowhere = {.start = 0, .size = 0};
    return create(__func__, instance, id, placement != NULL ? placement : &nowhere, compute);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    struct call call;
    if (!begin_compute_instance(&call, __func__, compute, PRIVILEGED | CHANGES))
        return call.result;
    for (unsigned i = 0; i < call.node->process_count; i++) {
        const struct process *p = &call.node->processes[i];
        if (p->gpu == call.gpu->index && p->gi == call.gi->id && p->ci == call.ci->id)
            return end(&call, NVML_ERROR_IN_USE);
    }
    size_t after = (size_t)(&call.gi->computes[call.gi->count] - (call.ci + 1));
    memmove(call.ci, call.ci + 1, after * sizeof *call.ci);
    call.gi->count--;
    return end_changed(&call);
}

/* --- finding --- */

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id,
                                                nvmlComputeInstance_t *computes,
                                                unsigned int *count)
{
    struct call call;
    unsigned slices;
    if (!begin_gpu_instance(&call, __func__, instance, MONITORS))
        return call.result;
    if (computes == NULL || count == NULL || !size_of_id(&call, id, &slices))
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    for (unsigned i = 0; i < call.gi->count; i++)
        if (call.gi->computes[i].profile == id)
            computes[(*count)++] =
                compute_instance_handle(call.node, call.gpu, &call.gi->computes[i]);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                   nvmlComputeInstance_t *compute)
{
    struct call call;
    if (!begin_gpu_instance(&call, __func__, instance, MONITORS))
        return call.result;
    if (compute == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < call.gi->count; i++)
        if (call.gi->computes[i].id == id) {
            *compute = compute_instance_handle(call.node, call.gpu, &call.gi->computes[i]);
            return end(&call, NVML_SUCCESS);
        }
    return end(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute,
                                           nvmlComputeInstanceInfo_t *info)
{
    struct call call;
    if (!begin_compute_instance(&call, "nvmlComputeInstanceGetInfo", compute, 0))
        return call.result;
    if (info == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlComputeInstanceInfo_t){
        .device = gpu_handle(call.gpu),
        .gpuInstance = gpu_instance_handle(call.node, call.gpu, call.gi),
        .id = call.ci->id,
        .profileId = call.ci->profile,
        .placement = {.start = call.ci->start, .size = call.ci->size},
    };
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute,
                                        nvmlComputeInstanceInfo_t *info)
{
    return nvmlComputeInstanceGetInfo_v2(compute, info);
}
