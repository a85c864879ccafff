/* Health, from the state file. A MIG device has no counters and sensors of its own. */
#include <string.h>

#include "silicon.h"

#define HEALTH_OF(key) (call.gpu->health[HEALTH_##key])

bool remaps_rows(const struct gpu *gpu)
{
    return gpu->model->architecture >= 7; /* Ampere and later; older GPUs retire pages */
}

/* Functions with one out-parameter whose value depends on `call` only; without `condition`,
 * NOT_SUPPORTED. */
#define ANSWER_IF(function, type, condition, expression)              \
    nvmlReturn_t function(nvmlDevice_t device, type *answer)          \
    {                                                                 \
        struct call call;                                             \
        if (!begin_gpu(&call, #function, device, WHOLE))              \
            return call.result;                                       \
        if (!(condition))                                             \
            return end(&call, NVML_ERROR_NOT_SUPPORTED);              \
        if (answer == NULL)                                           \
            return end(&call, NVML_ERROR_INVALID_ARGUMENT);           \
        *answer = (type)(expression);                                 \
        return end(&call, NVML_SUCCESS);                              \
    }
#define ANSWER(function, type, expression) ANSWER_IF(function, type, true, expression)

ANSWER(nvmlDeviceGetPowerUsage, unsigned int, HEALTH_OF(power_mw))
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned int, call.gpu->model->power_w * 1000)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, call.gpu->model->power_w * 1000)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, call.gpu->model->power_w * 1000)
ANSWER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, HEALTH_OF(energy_mj))
ANSWER(nvmlDeviceGetPerformanceState, nvmlPstates_t, 0)
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, HEALTH_OF(throttle_reasons))
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, HEALTH_OF(throttle_reasons))
ANSWER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1FF)
ANSWER(nvmlDeviceGetPcieReplayCounter, unsigned int, HEALTH_OF(pcie_replays))
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int,
       call.gpu->model->architecture >= 9   ? 5
       : call.gpu->model->architecture >= 7 ? 4
                                            : 3)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int,
       call.gpu->model->architecture >= 9   ? 5
       : call.gpu->model->architecture >= 7 ? 4
                                            : 3)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
ANSWER_IF(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, !remaps_rows(call.gpu),
          HEALTH_OF(retired_pending))
/* Not reported for GPUs in MIG mode. */
ANSWER_IF(nvmlDeviceGetUtilizationRates, nvmlUtilization_t, !call.gpu->mig,
          ((nvmlUtilization_t){.gpu = (unsigned)HEALTH_OF(utilization_gpu),
                               .memory = (unsigned)HEALTH_OF(utilization_memory)}))

static nvmlReturn_t codec_utilization(const char *name, nvmlDevice_t device, unsigned *utilization,
                                      unsigned *period_us)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (call.gpu->mig)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (utilization == NULL || period_us == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *utilization = 0;
    *period_us = 100000;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *period_us)
{
    return codec_utilization(__func__, device, utilization, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *period_us)
{
    return codec_utilization(__func__, device, utilization, period_us);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int *celsius)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (celsius == NULL || sensor != 0)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *celsius = (unsigned)HEALTH_OF(temperature_c);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (temperature == NULL || temperature->sensorType != 0)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (temperature->version != (sizeof *temperature | 1u << 24))
        return end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    temperature->temperature = (int)HEALTH_OF(temperature_c);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t threshold,
                                               unsigned int *celsius)
{
    /* Shutdown, slowdown, memory, GPU maximum, as of an H100 and an H200; four that acoustics set
     * are not of data centers' GPUs. */
    enum { THRESHOLDS = 8 };
    static const unsigned at[] = {95, 89, 95, 87};
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (celsius == NULL || (unsigned)threshold >= THRESHOLDS)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if ((unsigned)threshold >= sizeof at / sizeof *at)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    *celsius = at[threshold];
    return end(&call, NVML_SUCCESS);
}

/* --- clocks: 0 graphics, 1 SM, 2 memory, 3 video --- */

enum { MEMORY_CLOCK = 2, VIDEO_CLOCK = 3, IDLE_VIDEO_MHZ = 765, MAX_VIDEO_MHZ = 1545 };

static nvmlReturn_t clock_of(const char *name, nvmlDevice_t device, unsigned type, bool maximum,
                             unsigned *mhz)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (mhz == NULL || type > VIDEO_CLOCK)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *mhz = type == MEMORY_CLOCK  ? call.gpu->model->memory_mhz
           : type == VIDEO_CLOCK ? (maximum ? MAX_VIDEO_MHZ : IDLE_VIDEO_MHZ)
           : maximum             ? call.gpu->model->max_sm_mhz
                                 : (unsigned)HEALTH_OF(sm_clock_mhz);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return clock_of(__func__, device, (unsigned)type, false, mhz);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return clock_of(__func__, device, (unsigned)type, true, mhz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                unsigned int *mhz)
{
    /* By type, which ids it has: 0 current, 1 and 2 the application's and its default, 3 the
     * highest that can be boosted to. */
    enum { CURRENT, IDS = 4, TYPES = 4 };
    static const unsigned ids[TYPES] = {0xF, 0xF, 0x7, 0x1};
    struct call call;
    unsigned of = (unsigned)type, which = (unsigned)id;
    if (of < TYPES && which < IDS && ids[of] >> which & 1)
        return clock_of(__func__, device, of, which != CURRENT, mhz);
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    bool valid = of < TYPES ? which < IDS : which == CURRENT;
    return end(&call, valid ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);
}

/* --- memory errors --- */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                  nvmlEnableState_t *pending)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (current == NULL || pending == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *current = *pending = (nvmlEnableState_t)HEALTH_OF(ecc_mode);
    return end(&call, NVML_SUCCESS);
}

/* type: 0 corrected, 1 uncorrected; counter: 0 since the driver was loaded, 1 for the GPU's life;
 * location: whether errors are counted there. */
static nvmlReturn_t ecc_errors(const char *name, nvmlDevice_t device, unsigned type,
                               unsigned counter, bool location, unsigned long long *count)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (HEALTH_OF(ecc_mode) == 0 || !location)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (count == NULL || type > 1 || counter > 1)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    long long all = counter == 0 ? (type == 0 ? HEALTH_OF(ecc_corrected_volatile)
                                              : HEALTH_OF(ecc_uncorrected_volatile))
                                 : (type == 0 ? HEALTH_OF(ecc_corrected_aggregate)
                                              : HEALTH_OF(ecc_uncorrected_aggregate));
    *count = (unsigned long long)all;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long *count)
{
    return ecc_errors(__func__, device, (unsigned)type, (unsigned)counter, true, count);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location,
                                             unsigned long long *count)
{
    /* As an H100 and an H200 count them. All errors of the fake are in device memory. */
    enum { DEVICE_MEMORY = 2, SRAM = 7 };
    unsigned at = (unsigned)location;
    nvmlReturn_t result = ecc_errors(__func__, device, (unsigned)type, (unsigned)counter,
                                     at == DEVICE_MEMORY || at == SRAM, count);
    if (result == NVML_SUCCESS && at == SRAM)
        *count = 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                       unsigned int *uncorrectable, unsigned int *pending,
                                       unsigned int *failed)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (!remaps_rows(call.gpu))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (correctable == NULL || uncorrectable == NULL || pending == NULL || failed == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *correctable = (unsigned)HEALTH_OF(remapped_correctable);
    *uncorrectable = (unsigned)HEALTH_OF(remapped_uncorrectable);
    *pending = HEALTH_OF(remap_pending) != 0;
    *failed = HEALTH_OF(remap_failed) != 0;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                               nvmlRowRemapperHistogramValues_t *values)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (!remaps_rows(call.gpu))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (values == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned banks = call.gpu->model->remap_banks,
             used = (unsigned)(HEALTH_OF(remapped_correctable) + HEALTH_OF(remapped_uncorrectable));
    *values = (nvmlRowRemapperHistogramValues_t){.max = banks - (used < banks ? used : banks),
                                                 .high = used < banks ? used : banks};
    return end(&call, NVML_SUCCESS);
}

/* cause: 0 several single-bit errors, 1 a double-bit error. */
static nvmlReturn_t retired_pages(const char *name, nvmlDevice_t device, unsigned cause,
                                  unsigned *count, unsigned long long *addresses,
                                  unsigned long long *timestamps)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (remaps_rows(call.gpu))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (count == NULL || cause > 1)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned capacity = *count,
             found = (unsigned)(cause == 0 ? HEALTH_OF(retired_single) : HEALTH_OF(retired_double));
    *count = found;
    if (found > capacity || (found > 0 && addresses == NULL))
        return end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < found; i++) {
        addresses[i] = 0x10000ull * (i + 1);
        if (timestamps != NULL)
            timestamps[i] = 1700000000000000ull + i;
    }
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                       unsigned int *count, unsigned long long *addresses)
{
    return retired_pages(__func__, device, (unsigned)cause, count, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                          unsigned int *count, unsigned long long *addresses,
                                          unsigned long long *timestamps)
{
    return retired_pages("nvmlDeviceGetRetiredPages", device, (unsigned)cause, count, addresses,
                         timestamps);
}
