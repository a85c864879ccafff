/* Calls, as a C program would, every function of NVML that the agent calls; prints the answers.
 * On the first GPU, which is whole and has a process, and on the last, which it cuts and puts back.
 * test_abi.py holds this list of calls and the agent's together. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nvml_abi.h"

#define MUST(expression)                                                        \
    do {                                                                        \
        nvmlReturn_t result = (expression);                                     \
        if (result != NVML_SUCCESS)                                             \
            return printf("%s: %s\n", #expression, nvmlErrorString(result)), 1; \
    } while (0)

/* The structs of later versions say which they are. */
#define VERSION(type, number) ((unsigned)sizeof(type) | (number) << 24)

enum { MANY = 16, SEVENTH_LINK = 6, CLOCK_SM = 1, ONE_SLICE = 0, TEXT = 96, SM_ACTIVITY = 2 };

static int measure(nvmlGpmSample_t first, nvmlGpmSample_t second, double *percent)
{
    static nvmlGpmMetricsGet_t get;
    memset(&get, 0, sizeof get);
    get.version = NVML_GPM_METRICS_GET_VERSION;
    get.numMetrics = 1;
    get.sample1 = first;
    get.sample2 = second;
    get.metrics[0].metricId = SM_ACTIVITY;
    MUST(nvmlGpmMetricsGet(&get));
    MUST(get.metrics[0].nvmlReturn);
    *percent = get.metrics[0].value;
    return 0;
}

static int whole(nvmlDevice_t device)
{
    char name[TEXT], uuid[TEXT], process[TEXT];
    unsigned minor, celsius, milliwatts, limit, mhz, replays, current, pending, count;
    unsigned long long events, throttles;
    nvmlEnableState_t persistence, ecc, ecc_pending, link;
    nvmlPciInfo_t pci;
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory2 = {.version = VERSION(nvmlMemory_v2_t, 2)};
    nvmlUtilization_t busy;
    nvmlFieldValue_t fields[2] = {{.fieldId = 91}, {.fieldId = 82}};
    nvmlProcessInfo_v2_t before[MANY];
    nvmlProcessInfo_t processes[MANY];
    nvmlComputeMode_t mode;
    nvmlGpuFabricInfo_t fabric1;
    nvmlGpuFabricInfoV_t fabric = {.version = VERSION(nvmlGpuFabricInfo_v3_t, 3)};
    MUST(nvmlDeviceGetName(device, name, sizeof name));
    MUST(nvmlDeviceGetUUID(device, uuid, sizeof uuid));
    MUST(nvmlDeviceGetPciInfo_v3(device, &pci));
    MUST(nvmlDeviceGetMinorNumber(device, &minor));
    printf("[%s] %.4s %08x minor %u\n", name, uuid, pci.pciDeviceId, minor);
    MUST(nvmlDeviceGetMemoryInfo(device, &memory));
    MUST(nvmlDeviceGetMemoryInfo_v2(device, &memory2));
    printf("memory %llu MiB used %llu, of %llu\n", memory.total >> 20, memory2.used >> 20,
           memory2.total >> 20);
    MUST(nvmlDeviceGetTemperature(device, 0, &celsius));
    MUST(nvmlDeviceGetPowerUsage(device, &milliwatts));
    MUST(nvmlDeviceGetEnforcedPowerLimit(device, &limit));
    MUST(nvmlDeviceGetClockInfo(device, (nvmlClockType_t)CLOCK_SM, &mhz));
    MUST(nvmlDeviceGetPcieReplayCounter(device, &replays));
    printf("%u C, %u of %u mW, %u MHz, %u replays\n", celsius, milliwatts, limit, mhz, replays);
    MUST(nvmlDeviceGetPersistenceMode(device, &persistence));
    MUST(nvmlDeviceGetEccMode(device, &ecc, &ecc_pending));
    MUST(nvmlDeviceGetUtilizationRates(device, &busy));
    MUST(nvmlDeviceGetCurrentClocksEventReasons(device, &events));
    MUST(nvmlDeviceGetCurrentClocksThrottleReasons(device, &throttles));
    printf("persistence %d, ECC %d %d, busy %u, clocks %llu %llu\n", persistence, ecc, ecc_pending,
           busy.gpu, events, throttles);
    MUST(nvmlDeviceGetFieldValues(device, 2, fields));
    MUST(fields[0].nvmlReturn);
    MUST(fields[1].nvmlReturn);
    MUST(nvmlDeviceGetNvLinkState(device, SEVENTH_LINK, &link));
    printf("%u NVLinks, seventh %d, memory %u C\n", fields[0].value.uiVal, link,
           fields[1].value.uiVal);
    MUST(nvmlDeviceGetComputeMode(device, &mode));
    MUST(nvmlDeviceGetGpuFabricInfo(device, &fabric1));
    MUST(nvmlDeviceGetGpuFabricInfoV(device, &fabric));
    printf("compute mode %d, fabric %d %d, health %x\n", (int)mode, fabric1.state, fabric.state,
           fabric.healthMask);
    MUST(nvmlDeviceGetMigMode(device, &current, &pending));
    printf("MIG %u %u\n", current, pending);
    count = MANY;
    MUST(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes));
    printf("%u process %u of %llu MiB", count, processes[0].pid, processes[0].usedGpuMemory >> 20);
    count = MANY;
    MUST(nvmlDeviceGetComputeRunningProcesses_v2(device, &count, before));
    MUST(nvmlSystemGetProcessName(before[0].pid, process, sizeof process));
    printf(" is [%s],", process);
    count = MANY;
    MUST(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, processes));
    printf(" %u graphics,", count);
    count = MANY;
    MUST(nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &count, processes));
    printf(" %u MPS\n", count);
    return 0;
}

static int partition(nvmlDevice_t device, nvmlGpuInstance_t instance)
{
    char name[TEXT];
    unsigned count = MANY, most, gi, ci;
    nvmlDevice_t mig;
    nvmlDeviceAttributes_t attributes;
    nvmlComputeInstanceProfileInfo_t part;
    nvmlComputeInstanceProfileInfo_v2_t part2 = {
        .version = VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2)};
    nvmlComputeInstancePlacement_t places[MANY];
    nvmlComputeInstance_t compute, found, all[MANY];
    nvmlComputeInstanceInfo_t info;
    MUST(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, ONE_SLICE, 0, &part));
    MUST(nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, ONE_SLICE, 0, &part2));
    MUST(nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, part.id, places, &count));
    printf("compute profile %u %u, %u places, last %u+%u\n", part.id, part2.sliceCount, count,
           places[count - 1].start, places[count - 1].size);
    MUST(nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, part.id, &places[count - 1],
                                                           &compute));
    MUST(nvmlComputeInstanceGetInfo_v2(compute, &info));
    MUST(nvmlGpuInstanceGetComputeInstanceById(instance, info.id, &found));
    count = MANY;
    MUST(nvmlGpuInstanceGetComputeInstances(instance, part.id, all, &count));
    printf("compute instance at %u, %u of them\n", info.placement.start, count);
    MUST(nvmlDeviceGetMaxMigDeviceCount(device, &most));
    MUST(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &mig));
    MUST(nvmlDeviceGetGpuInstanceId(mig, &gi));
    MUST(nvmlDeviceGetComputeInstanceId(mig, &ci));
    MUST(nvmlDeviceGetName(mig, name, sizeof name));
    MUST(nvmlDeviceGetAttributes_v2(mig, &attributes));
    printf("[%s] of %u, same %d, %u SMs, %llu MiB\n", name, most, ci == info.id,
           attributes.multiprocessorCount, attributes.memorySizeMB);
    MUST(nvmlComputeInstanceDestroy(found));
    MUST(nvmlGpuInstanceCreateComputeInstance(instance, part.id, &compute));
    MUST(nvmlComputeInstanceDestroy(compute));
    return 0;
}

static int cut(nvmlDevice_t device)
{
    unsigned count = MANY, current, pending;
    nvmlReturn_t activation;
    nvmlGpuInstanceProfileInfo_t profile;
    nvmlGpuInstanceProfileInfo_v2_t profile2 = {.version =
                                                    VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2)};
    nvmlGpuInstancePlacement_t places[MANY];
    nvmlGpuInstance_t instance, found, all[MANY];
    nvmlGpuInstanceInfo_t info;
    nvmlGpmSample_t sample;
    MUST(nvmlDeviceSetMigMode(device, 1, &activation));
    MUST(activation);
    MUST(nvmlDeviceGetMigMode(device, &current, &pending));
    MUST(nvmlDeviceGetGpuInstanceProfileInfo(device, 2, &profile));
    MUST(nvmlDeviceGetGpuInstanceProfileInfoV(device, 2, &profile2));
    MUST(nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile.id, places, &count));
    printf("MIG %u %u, profile %u [%s], %u places, last %u+%u\n", current, pending, profile.id,
           profile2.name, count, places[count - 1].start, places[count - 1].size);
    MUST(nvmlDeviceCreateGpuInstanceWithPlacement(device, profile.id, &places[count - 1],
                                                  &instance));
    MUST(nvmlGpuInstanceGetInfo(instance, &info));
    MUST(nvmlDeviceGetGpuInstanceById(device, info.id, &found));
    MUST(nvmlDeviceGetGpuInstances(device, profile.id, all, &count));
    printf("GPU instance of profile %u at %u, %u of them\n", info.profileId, info.placement.start,
           count);
    MUST(nvmlGpmSampleAlloc(&sample));
    MUST(nvmlGpmMigSampleGet(device, info.id, sample));
    MUST(nvmlGpmSampleFree(sample));
    if (partition(device, found))
        return 1;
    MUST(nvmlGpuInstanceDestroy(found));
    MUST(nvmlDeviceSetMigMode(device, 0, &activation));
    MUST(activation);
    return 0;
}

static int busy(nvmlDevice_t device)
{
    const struct timespec moment = {.tv_nsec = 120000000};
    double percent;
    nvmlGpmSupport_t support = {.version = NVML_GPM_SUPPORT_VERSION};
    nvmlGpmSample_t first, second;
    MUST(nvmlGpmQueryDeviceSupport(device, &support));
    MUST(nvmlGpmSampleAlloc(&first));
    MUST(nvmlGpmSampleAlloc(&second));
    MUST(nvmlGpmSampleGet(device, first));
    nanosleep(&moment, NULL);
    MUST(nvmlGpmSampleGet(device, second));
    if (measure(first, second, &percent))
        return 1;
    MUST(nvmlGpmSampleFree(first));
    MUST(nvmlGpmSampleFree(second));
    printf("GPM %u, SMs %.0f %%\n", support.isSupportedDevice, percent);
    return 0;
}

int main(void)
{
    char driver[TEXT];
    int cuda;
    unsigned count;
    nvmlDevice_t first, last;
    MUST(nvmlInit_v2());
    MUST(nvmlSystemGetDriverVersion(driver, sizeof driver));
    MUST(nvmlSystemGetCudaDriverVersion(&cuda));
    MUST(nvmlDeviceGetCount_v2(&count));
    printf("driver %s, CUDA %d, %u GPUs\n", driver, cuda, count);
    MUST(nvmlDeviceGetHandleByIndex_v2(0, &first));
    MUST(nvmlDeviceGetHandleByIndex_v2(count - 1, &last));
    if (whole(first) || busy(first) || cut(last))
        return 1;
    MUST(nvmlShutdown());
    return nvmlShutdown() == NVML_ERROR_UNINITIALIZED ? 0 : 1;
}
