/* GPM: the utilization of a GPU or a GPU instance between two samples. The values are the state
 * file's `load` lines.
 *
 * From NVIDIA's documentation: Hopper and later; structs of version 1. An H100 and an H200 refuse a
 * GPU instance that does not exist as INVALID_ARGUMENT, and do not refuse samples less than the 100
 * ms apart that the documentation asks for. Inferred, and to be compared with a real driver in MIG
 * mode: the codes for a whole GPU then, and for samples of two different GPUs or instances. */
#include <stdlib.h>
#include <string.h>

#include "silicon.h"

enum { HOPPER = 9, GRAPHICS = 1, SM = 2, OCCUPANCY = 3, DRAM = 10 };

struct nvmlGpmSample_st {
    bool taken;
    unsigned gpu, gi;
    struct load load;
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (support == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (support->version != NVML_GPM_SUPPORT_VERSION)
        return end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    support->isSupportedDevice = call.gpu->model->architecture >= HOPPER;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (sample == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    sample->handle = calloc(1, sizeof *sample->handle);
    return end(&call, sample->handle == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (sample.handle == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    free(sample.handle);
    return end(&call, NVML_SUCCESS);
}

static nvmlReturn_t take(struct call *call, unsigned gi, nvmlGpmSample_t sample)
{
    if (sample.handle == NULL)
        return end(call, NVML_ERROR_INVALID_ARGUMENT);
    *sample.handle = (struct nvmlGpmSample_st){
        .taken = true, .gpu = call->gpu->index, .gi = gi};
    for (unsigned i = 0; i < call->node->load_count; i++)
        if (call->node->loads[i].gpu == call->gpu->index && call->node->loads[i].gi == gi)
            sample.handle->load = call->node->loads[i];
    return end(call, NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (call.gpu->model->architecture < HOPPER || call.gpu->mig)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    return take(&call, NO_INSTANCE, sample);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId,
                                 nvmlGpmSample_t sample)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (call.gpu->model->architecture < HOPPER)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    for (unsigned i = 0; call.gpu->mig && i < call.gpu->count; i++)
        if (call.gpu->instances[i].id == gpuInstanceId)
            return take(&call, gpuInstanceId, sample);
    return end(&call, NVML_ERROR_INVALID_ARGUMENT);
}

static void set(nvmlGpmMetric_t *metric, unsigned percent, char *short_name, char *long_name)
{
    metric->value = percent;
    metric->metricInfo.shortName = short_name;
    metric->metricInfo.longName = long_name;
}

/* As an H100 answers for metrics that it has not, the others here are 0 and without a name. */
static void answer(nvmlGpmMetric_t *metric, const struct load *load)
{
    memset(&metric->metricInfo, 0, sizeof metric->metricInfo);
    metric->value = 0;
    if (metric->metricId == 0 || metric->metricId >= NVML_GPM_METRIC_MAX) {
        metric->nvmlReturn = NVML_ERROR_INVALID_ARGUMENT;
        return;
    }
    metric->nvmlReturn = NVML_SUCCESS;
    metric->metricInfo.unit = "%";
    switch (metric->metricId) {
    case GRAPHICS: set(metric, load->graphics, "gract", "GRAPHICS_UTIL"); break;
    case SM: set(metric, load->sm, "smutil", "SM_UTIL"); break;
    case OCCUPANCY: set(metric, load->occupancy, "smocc", "SM_OCCUPANCY"); break;
    case DRAM: set(metric, load->dram, "dram", "DRAM_BW_UTIL"); break;
    default: break;
    }
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (get == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (get->version != NVML_GPM_METRICS_GET_VERSION)
        return end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const struct nvmlGpmSample_st *first = get->sample1.handle, *second = get->sample2.handle;
    if (first == NULL || second == NULL || !first->taken || !second->taken ||
        first->gpu != second->gpu || first->gi != second->gi || get->numMetrics == 0 ||
        get->numMetrics > NVML_GPM_METRIC_MAX)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < get->numMetrics; i++)
        answer(&get->metrics[i], &second->load);
    return end(&call, NVML_SUCCESS);
}
