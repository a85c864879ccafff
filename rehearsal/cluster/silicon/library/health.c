/* Health, from the state file. A MIG device has no counters and sensors of its own. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "silicon.h"

#define HEALTH_OF(key) (call.gpu->health[HEALTH_##key])

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
ANSWER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, HEALTH_OF(retired_pending))
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
    static const unsigned at[] = {92, 89, 95, 87}; /* shutdown, slowdown, memory, GPU maximum */
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (celsius == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if ((unsigned)threshold >= sizeof at / sizeof *at)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    *celsius = at[threshold];
    return end(&call, NVML_SUCCESS);
}

/* --- clocks: 0 graphics, 1 SM, 2 memory, 3 video --- */

static nvmlReturn_t clock_of(const char *name, nvmlDevice_t device, unsigned type, bool maximum,
                             unsigned *mhz)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (mhz == NULL || type > 3)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *mhz = type == 2 ? call.gpu->model->memory_mhz
           : maximum ? call.gpu->model->max_sm_mhz
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
    return clock_of(__func__, device, (unsigned)type, id != 0, mhz);
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

/* type: 0 corrected, 1 uncorrected; counter: 0 since the driver was loaded, 1 for the GPU's life.
 */
static nvmlReturn_t ecc_errors(const char *name, nvmlDevice_t device, unsigned type,
                               unsigned counter, bool counted, unsigned long long *count)
{
    struct call call;
    if (!begin_gpu(&call, name, device, WHOLE))
        return call.result;
    if (HEALTH_OF(ecc_mode) == 0)
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (count == NULL || type > 1 || counter > 1)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    long long all = counter == 0 ? (type == 0 ? HEALTH_OF(ecc_corrected_volatile)
                                              : HEALTH_OF(ecc_uncorrected_volatile))
                                 : (type == 0 ? HEALTH_OF(ecc_corrected_aggregate)
                                              : HEALTH_OF(ecc_uncorrected_aggregate));
    *count = counted ? (unsigned long long)all : 0;
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
    return ecc_errors(__func__, device, (unsigned)type, (unsigned)counter, location == 2,
                      count); /* all errors are in device memory */
}

static bool remaps_rows(const struct call *call)
{
    return call->gpu->model->architecture >= 7; /* Ampere and later; older GPUs retire pages */
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                       unsigned int *uncorrectable, unsigned int *pending,
                                       unsigned int *failed)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (!remaps_rows(&call))
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
    if (!remaps_rows(&call))
        return end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (values == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned banks = 640,
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
    if (remaps_rows(&call))
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

/* --- field values: many values in one call, each with its own return code --- */

enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };

static bool field(const struct gpu *gpu, unsigned id, nvmlFieldValue_t *value)
{
    static const struct { unsigned id, type; enum health_key key; } known[] = {
        {1, UNSIGNED_INT, HEALTH_ecc_mode},
        {2, UNSIGNED_INT, HEALTH_ecc_mode},
        {3, UNSIGNED_LONG_LONG, HEALTH_ecc_corrected_volatile},
        {4, UNSIGNED_LONG_LONG, HEALTH_ecc_uncorrected_volatile},
        {5, UNSIGNED_LONG_LONG, HEALTH_ecc_corrected_aggregate},
        {6, UNSIGNED_LONG_LONG, HEALTH_ecc_uncorrected_aggregate},
        {29, UNSIGNED_LONG_LONG, HEALTH_retired_single},
        {30, UNSIGNED_LONG_LONG, HEALTH_retired_double},
        {31, UNSIGNED_LONG_LONG, HEALTH_retired_pending},
        {82, UNSIGNED_INT, HEALTH_memory_temperature_c},
        {83, UNSIGNED_LONG_LONG, HEALTH_energy_mj},
        {142, UNSIGNED_INT, HEALTH_remapped_correctable},
        {143, UNSIGNED_INT, HEALTH_remapped_uncorrectable},
        {144, UNSIGNED_INT, HEALTH_remap_pending},
        {145, UNSIGNED_INT, HEALTH_remap_failed},
        {186, UNSIGNED_INT, HEALTH_power_mw},
        {230, UNSIGNED_INT, HEALTH_recovery_action},
    };
    if (id == 91) { /* NVLinks on the GPU */
        value->valueType = (nvmlValueType_t)UNSIGNED_INT;
        value->value.uiVal = gpu->model->nvlinks;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id) {
            value->valueType = (nvmlValueType_t)known[i].type;
            value->value.ullVal = (unsigned long long)gpu->health[known[i].key];
            return true;
        }
    return false;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct call call;
    struct timespec now;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (values == NULL || count < 1)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        memset(&values[i].value, 0, sizeof values[i].value);
        values[i].timestamp = now.tv_sec * 1000000ll + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = field(call.gpu, values[i].fieldId, &values[i])
                                   ? NVML_SUCCESS
                                   : NVML_ERROR_NOT_SUPPORTED;
    }
    return end(&call, NVML_SUCCESS);
}
