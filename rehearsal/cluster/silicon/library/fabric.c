/* The NVLink fabric of machines with NVSwitches, as a GPU's driver sees it.
 *
 * Fabric Manager configures the switches after each start of the node, and the GPU keeps the state
 * that it reached, even if Fabric Manager ends. Source: nvml.h, "Fabric definitions"; NVIDIA Fabric
 * Manager user guide. Inferred: the driver branches that have each version of the structure. */
#include <stdlib.h>
#include <string.h>

#include "silicon.h"

#define HEALTH_OF(key) (call->gpu->health[HEALTH_##key])

enum { COMPLETED = 3 };
enum { HOPPER = 9, BLACKWELL = 10, LINKS_TO_SWITCHES = 18, GPUS_OF_A_BOARD = 8 };
enum { FIRST_BRANCH = 525, FIRST_BRANCH_OF_V2 = 550, FIRST_BRANCH_OF_V3 = 570 };
/* Bandwidth, route recovery, route and access: "false", which is 2; configuration: "none", 1. */
enum { HEALTHY_MASK = 0x1AA };
enum { SUMMARY_UNKNOWN = 0, SUMMARY_HEALTHY = 1, SUMMARY_UNHEALTHY = 2 };

/* Before Hopper, on PCIe cards and on a machine with some GPUs of a board, NVML knows no fabric.
 * GB200 machines have four GPUs, and their switches are in the rack. */
static bool has_fabric(const struct call *call)
{
    const struct model *model = call->gpu->model;
    bool whole_board = call->node->gpu_count >= GPUS_OF_A_BOARD;
    return model->architecture >= HOPPER && model->nvlinks == LINKS_TO_SWITCHES &&
           (whole_board || strncmp(model->key, "GB", 2) == 0);
}

static int branch(const struct call *call) { return atoi(call->node->driver); }

static unsigned health_mask(const struct call *call)
{
    if (HEALTH_OF(fabric_health) >= 0)
        return (unsigned)HEALTH_OF(fabric_health);
    return call->gpu->model->architecture >= BLACKWELL ? HEALTHY_MASK : 0;
}

static unsigned char summary(unsigned mask)
{
    return mask == 0              ? SUMMARY_UNKNOWN
           : mask == HEALTHY_MASK ? SUMMARY_HEALTHY
                                  : SUMMARY_UNHEALTHY;
}

static nvmlReturn_t status(const struct call *call)
{
    return HEALTH_OF(fabric_state) == COMPLETED ? (nvmlReturn_t)HEALTH_OF(fabric_status)
                                                : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (branch(&call) < FIRST_BRANCH)
        return end(&call, NVML_ERROR_FUNCTION_NOT_FOUND);
    if (info == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (!has_fabric(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    *info = (nvmlGpuFabricInfo_t){
        .status = status(&call),
        .state = (nvmlGpuFabricState_t)call.gpu->health[HEALTH_fabric_state],
    };
    return end(&call, NVML_SUCCESS);
}

#define VERSION(type, number) ((unsigned)sizeof(type) | (number) << 24)

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (branch(&call) < FIRST_BRANCH_OF_V2)
        return end(&call, NVML_ERROR_FUNCTION_NOT_FOUND);
    if (info == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    bool third = info->version == VERSION(nvmlGpuFabricInfo_v3_t, 3) &&
                 branch(&call) >= FIRST_BRANCH_OF_V3;
    if (!third && info->version != VERSION(nvmlGpuFabricInfo_v2_t, 2))
        return end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (!has_fabric(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    unsigned mask = health_mask(&call);
    nvmlGpuFabricInfo_v2_t begin = {
        .version = info->version,
        .status = status(&call),
        .state = (nvmlGpuFabricState_t)call.gpu->health[HEALTH_fabric_state],
        .healthMask = mask,
    };
    memcpy(info, &begin, sizeof begin); /* version 3 begins with version 2 */
    if (third)
        info->healthSummary = summary(mask);
    return end(&call, NVML_SUCCESS);
}
