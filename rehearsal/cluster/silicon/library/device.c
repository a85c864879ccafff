/* Properties of GPUs and MIG devices: names, bus, memory, processes, links. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "silicon.h"

static const unsigned long long MIB = 1024ull * 1024;

/* Functions with one out-parameter whose value depends on `call` only. */
#define ANSWER(function, wants, type, expression)                     \
    nvmlReturn_t function(nvmlDevice_t device, type *answer)          \
    {                                                                 \
        struct call call;                                             \
        if (!begin_gpu(&call, #function, device, wants))              \
            return call.result;                                       \
        if (answer == NULL)                                           \
            return end(&call, NVML_ERROR_INVALID_ARGUMENT);           \
        *answer = (type)(expression);                                 \
        return end(&call, NVML_SUCCESS);                              \
    }

/* The profile of a MIG device: `1c.3g.40gb` where its compute instance is smaller than its GPU
 * instance. */
static void profile_name(const struct call *call, char *name, size_t size)
{
    if (call->ci->size < call->gi->slice->slices)
        snprintf(name, size, "%uc.%s", call->ci->size, call->gi->slice->name);
    else
        snprintf(name, size, "%s", call->gi->slice->name);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    struct call call;
    char text[96], profile[48];
    if (!begin_gpu(&call, __func__, device, EITHER))
        return call.result;
    if (call.ci == NULL)
        return end_text(&call, call.gpu->model->name, name, length);
    profile_name(&call, profile, sizeof profile);
    snprintf(text, sizeof text, "%.44s MIG %.44s", call.gpu->model->name, profile);
    return end_text(&call, text, name, length);
}

ANSWER(nvmlDeviceGetBrand, WHOLE, nvmlBrandType_t, call.gpu->model->brand)

/* Among the GPUs that this process may open. */
static unsigned visible_index(const struct call *call)
{
    unsigned index = 0;
    for (unsigned i = 0; i < call->gpu->index; i++)
        index += may_use_gpu(&call->node->gpus[i]);
    return index;
}

ANSWER(nvmlDeviceGetIndex, EITHER, unsigned int,
       call.ci == NULL ? visible_index(&call) : call.ci->index)
ANSWER(nvmlDeviceGetMinorNumber, WHOLE, unsigned int, call.gpu->minor)
ANSWER(nvmlDeviceGetArchitecture, WHOLE, nvmlDeviceArchitecture_t, call.gpu->model->architecture)
ANSWER(nvmlDeviceGetNumGpuCores, WHOLE, unsigned int,
       call.gpu->model->sms *call.gpu->model->cores_per_sm)
ANSWER(nvmlDeviceGetMemoryBusWidth, WHOLE, unsigned int, call.gpu->model->bus_bits)
ANSWER(nvmlDeviceGetPersistenceMode, WHOLE, nvmlEnableState_t, call.gpu->health[HEALTH_persistence])
ANSWER(nvmlDeviceGetComputeMode, EITHER, nvmlComputeMode_t,
       (int)(call.gpu->mig ? 0 : call.gpu->health[HEALTH_compute_mode]))
ANSWER(nvmlDeviceGetVirtualizationMode, WHOLE, nvmlGpuVirtualizationMode_t,
       1) /* pass-through, as in every cloud's machines */

/* The NUMA node that a GPU's own memory is: with Grace processors only. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (strncmp(call.gpu->model->key, "GB", 2) != 0)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (node == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *node = call.gpu->index * 2 / (call.node->gpu_count > 1 ? call.node->gpu_count : 2);
    return end(&call, NVML_SUCCESS);
}

/* 0 default, 2 prohibited, 3 exclusive process; 1, exclusive thread, is gone since CUDA 8. Kept
 * until the driver is loaded again. In MIG mode it is the default, and cannot be changed (nvml.h).
 */
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE | PRIVILEGED | CHANGES))
        return call.result;
    if (mode == 1 || call.gpu->mig)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (mode < 0 || mode > 3)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    call.gpu->health[HEALTH_compute_mode] = mode;
    return end_changed(&call);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    struct call call;
    return begin_gpu(&call, __func__, device, WHOLE)
               ? end_text(&call, call.gpu->board, serial, length)
               : call.result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    struct call call;
    return begin_gpu(&call, __func__, device, EITHER)
               ? end_text(&call, call.ci == NULL ? call.gpu->uuid : call.ci->uuid, uuid, length)
               : call.result;
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    struct call call;
    return begin_gpu(&call, __func__, device, WHOLE)
               ? end_text(&call, "96.00.74.00.01", version, length)
               : call.result;
}

static void bus_ids(nvmlPciInfo_t *pci)
{
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF,
             pci->bus & 0xFF, pci->device & 0xFF);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    struct call call;
    if (!begin_gpu(&call, "nvmlDeviceGetPciInfo", device, WHOLE))
        return call.result;
    if (pci == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    memset(pci, 0, sizeof *pci);
    pci->domain = call.gpu->domain;
    pci->bus = call.gpu->bus;
    pci->device = call.gpu->slot;
    pci->pciDeviceId = call.gpu->model->pci_id << 16 | 0x10DE;
    pci->pciSubSystemId = call.gpu->model->pci_subsystem << 16 | 0x10DE;
    bus_ids(pci);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, EITHER))
        return call.result;
    if (major == NULL || minor == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *major = (int)call.gpu->model->cuda_major;
    *minor = (int)call.gpu->model->cuda_minor;
    return end(&call, NVML_SUCCESS);
}

/* --- memory --- */

static bool concerns(const struct call *call, const struct process *process)
{
    return process->gpu == call->gpu->index &&
           (call->ci == NULL || (process->gi == call->gi->id && process->ci == call->ci->id));
}

/* Of a share, a container sees only what its own processes use. */
static void share_of(const struct call *call, unsigned long long limit, nvmlMemory_v2_t *memory)
{
    unsigned long long used = 0;
    for (unsigned i = 0; i < call->node->process_count; i++)
        if (call->node->processes[i].gpu == call->gpu->index &&
            call->node->processes[i].pid == (unsigned)getpid())
            used += call->node->processes[i].memory_mib * MIB;
    memory->total = limit;
    memory->reserved = 0;
    memory->used = used < limit ? used : limit;
    memory->free = limit - memory->used;
}

/* Bytes. The driver keeps some for itself; a MIG device has its GPU instance's memory. */
static void memory_of(const struct call *call, nvmlMemory_v2_t *memory)
{
    unsigned long long used = 0;
    for (unsigned i = 0; i < call->node->process_count; i++) {
        const struct process *p = &call->node->processes[i];
        if (call->ci != NULL ? p->gpu == call->gpu->index && p->gi == call->gi->id
                             : p->gpu == call->gpu->index)
            used += p->memory_mib;
    }
    unsigned long long total =
        call->ci != NULL ? call->gi->slice->memory_mib : call->gpu->model->memory_mib;
    unsigned long long reserved = call->ci != NULL ? 12 : call->gpu->model->reserved_mib;
    memory->total = total * MIB;
    memory->reserved = reserved * MIB;
    memory->used = (used < total - reserved ? used : total - reserved) * MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    unsigned long long limit = call->ci == NULL ? memory_limit(visible_index(call)) : 0;
    if (limit != 0 && limit < memory->total)
        share_of(call, limit, memory);
}

/* With MIG on, the memory of the GPU as a whole is refused to those who may not monitor it. */
static bool memory_hidden(const struct call *call)
{
    return call->ci == NULL && call->gpu->mig && !may_monitor();
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct call call;
    nvmlMemory_v2_t all;
    if (!begin_gpu(&call, __func__, device, EITHER))
        return call.result;
    if (memory == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (memory_hidden(&call))
        return end(&call, NVML_ERROR_NO_PERMISSION);
    memory_of(&call, &all);
    *memory = (nvmlMemory_t){.total = all.total, .free = all.free, .used = all.used + all.reserved};
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct call call;
    if (!begin_gpu(&call, "nvmlDeviceGetMemoryInfo", device, EITHER))
        return call.result;
    if (memory == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (memory->version != (sizeof *memory | 2u << 24))
        return end(&call, NVML_ERROR_FUNCTION_NOT_FOUND);
    if (memory_hidden(&call))
        return end(&call, NVML_ERROR_NO_PERMISSION);
    memory_of(&call, memory);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (memory == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned long long total = 256;
    while (total < call.gpu->model->memory_mib)
        total *= 2;
    unsigned long long used = MIB + MIB * 5 / 8;
    *memory = (nvmlBAR1Memory_t){
        .bar1Total = total * MIB, .bar1Free = total * MIB - used, .bar1Used = used};
    return end(&call, NVML_SUCCESS);
}

/* --- processes --- */

/* Fills `infos` in the caller's own struct: v1 is two fields long, v2 (served by _v2 and _v3) four.
 */
static nvmlReturn_t processes_of(const char *name, nvmlDevice_t device, unsigned *count,
                                 nvmlProcessInfo_v1_t *v1, nvmlProcessInfo_t *v2)
{
    struct call call;
    if (!begin_gpu(&call, name, device, EITHER))
        return call.result;
    if (count == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned capacity = *count, found = 0;
    for (unsigned i = 0; i < call.node->process_count; i++) {
        const struct process *p = &call.node->processes[i];
        if (!concerns(&call, p))
            continue;
        if (found < capacity && v1 != NULL)
            v1[found] = (nvmlProcessInfo_v1_t){.pid = p->pid, .usedGpuMemory = p->memory_mib * MIB};
        if (found < capacity && v2 != NULL)
            v2[found] = (nvmlProcessInfo_t){.pid = p->pid,
                                            .usedGpuMemory = p->memory_mib * MIB,
                                            .gpuInstanceId = p->gi,
                                            .computeInstanceId = p->ci};
        found++;
    }
    *count = found;
    return end(&call, found > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

static nvmlReturn_t no_processes(const char *name, nvmlDevice_t device, unsigned *count)
{
    struct call call;
    if (!begin_gpu(&call, name, device, EITHER))
        return call.result;
    if (count == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                  nvmlProcessInfo_v1_t *infos)
{
    return processes_of("nvmlDeviceGetComputeRunningProcesses", device, count, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v2_t *infos)
{
    return processes_of("nvmlDeviceGetComputeRunningProcesses", device, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *infos)
{
    return processes_of("nvmlDeviceGetComputeRunningProcesses", device, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes("nvmlDeviceGetGraphicsRunningProcesses", device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes("nvmlDeviceGetMPSComputeRunningProcesses", device, count);
}

/* --- topology and links --- */

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 nvmlGpuTopologyLevel_t *level)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device1, WHOLE))
        return call.result;
    unsigned first = call.gpu->index;
    end(&call, NVML_SUCCESS);
    if (!begin_gpu(&call, __func__, device2, WHOLE))
        return call.result;
    unsigned second = call.gpu->index, half = (call.node->gpu_count + 1) / 2;
    if (level == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (first == second)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    /* Two GPUs behind one switch, four on one processor: 30 host bridge, 40 NUMA node, 50 system.
     */
    *level = first / 2 == second / 2 ? 30 : first / half == second / half ? 40 : 50;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *same)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device2, WHOLE))
        return call.result;
    end(&call, NVML_SUCCESS);
    if (!begin_gpu(&call, __func__, device1, WHOLE))
        return call.result;
    if (same == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *same = device1.handle == device2.handle;
    return end(&call, NVML_SUCCESS);
}

/* A machine with a single GPU of a board has none of the board's links. */
unsigned nvlinks(const struct call *call)
{
    return call->node->gpu_count > 1 ? call->gpu->model->nvlinks : 0;
}

static nvmlReturn_t on_link(struct call *call, unsigned link)
{
    if (nvlinks(call) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return link < nvlinks(call) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static bool link_active(const struct call *call, unsigned link)
{
    return !call->gpu->mig && !(call->gpu->health[HEALTH_nvlinks_down] >> link & 1);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *active)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    nvmlReturn_t result = active == NULL ? NVML_ERROR_INVALID_ARGUMENT : on_link(&call, link);
    if (result == NVML_SUCCESS)
        *active = (nvmlEnableState_t)link_active(&call, link);
    return end(&call, result);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int *version)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    nvmlReturn_t result = version == NULL ? NVML_ERROR_INVALID_ARGUMENT : on_link(&call, link);
    if (result == NVML_SUCCESS)
        *version = call.gpu->model->architecture >= 10  ? 7
                   : call.gpu->model->architecture == 9 ? 6
                                                        : 5;
    return end(&call, result);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    struct call call;
    if (!begin_gpu(&call, "nvmlDeviceGetNvLinkRemotePciInfo", device, WHOLE))
        return call.result;
    nvmlReturn_t result = pci == NULL ? NVML_ERROR_INVALID_ARGUMENT : on_link(&call, link);
    if (result == NVML_SUCCESS) {
        /* The far end is one of the board's NVSwitches, which are on the bus beside the GPUs. */
        memset(pci, 0, sizeof *pci);
        pci->domain = 0;
        pci->bus = 0xF0 + link % 4;
        bus_ids(pci);
    }
    return end(&call, result);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *type)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    nvmlReturn_t result = type == NULL ? NVML_ERROR_INVALID_ARGUMENT : on_link(&call, link);
    if (result == NVML_SUCCESS)
        *type = 2; /* a switch */
    return end(&call, result);
}
