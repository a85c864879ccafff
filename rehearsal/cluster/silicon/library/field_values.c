/* Field values: many values of a GPU in one call, each with its own type and return code. Which are
 * answered, and how, is what an H100 and an H200 answer (driver 580.159.04, docs/gpu-check); the
 * same is assumed of the others. */
#include <string.h>
#include <time.h>

#include "silicon.h"

enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3, SIGNED_INT = 5 };
enum { NONE = 0, EDPP_MULTIPLIER = 274 };

struct from_health { unsigned id; int type; enum health_key key; };
static const struct from_health measured[] = {
    {1, UNSIGNED_LONG_LONG, HEALTH_ecc_mode},
    {2, UNSIGNED_LONG_LONG, HEALTH_ecc_mode},
    {3, UNSIGNED_LONG_LONG, HEALTH_ecc_corrected_volatile},
    {4, UNSIGNED_LONG_LONG, HEALTH_ecc_uncorrected_volatile},
    {5, UNSIGNED_LONG_LONG, HEALTH_ecc_corrected_aggregate},
    {6, UNSIGNED_LONG_LONG, HEALTH_ecc_uncorrected_aggregate},
    {82, UNSIGNED_INT, HEALTH_memory_temperature_c},
    {83, UNSIGNED_LONG_LONG, HEALTH_energy_mj},
    {94, UNSIGNED_INT, HEALTH_pcie_replays},
    {185, UNSIGNED_INT, HEALTH_power_mw}, /* average */
    {186, UNSIGNED_INT, HEALTH_power_mw},
    {191, UNSIGNED_LONG_LONG, HEALTH_energy_mj},
    {230, UNSIGNED_INT, HEALTH_recovery_action},
};
static const struct from_health remapped_rows[] = {
    {142, UNSIGNED_LONG_LONG, HEALTH_remapped_correctable},
    {143, UNSIGNED_LONG_LONG, HEALTH_remapped_uncorrectable},
    {144, UNSIGNED_LONG_LONG, HEALTH_remap_pending},
    {145, UNSIGNED_LONG_LONG, HEALTH_remap_failed},
};
static const struct from_health retired_pages[] = {
    {29, UNSIGNED_LONG_LONG, HEALTH_retired_single},
    {30, UNSIGNED_LONG_LONG, HEALTH_retired_double},
    {31, UNSIGNED_LONG_LONG, HEALTH_retired_pending},
};

/* The same on every healthy, idle GPU. */
static const struct { unsigned first, last; int type, value; } constant[] = {
    {74, 81, UNSIGNED_LONG_LONG, 0},   /* ns below the full clocks, by policy */
    {95, 95, UNSIGNED_INT, 0},         /* PCIe replays: rollovers */
    {147, 147, 0, 0},                  /* links to an NVSwitch: answered without a type */
    {169, 169, UNSIGNED_INT, 0},       /* PCIe recoveries */
    {173, 183, UNSIGNED_INT, 0},       /* PCIe errors by kind */
    {193, 193, SIGNED_INT, -8},        /* shutdown, below the margin's zero */
    {194, 194, SIGNED_INT, -2},        /* slowdown */
    {195, 196, SIGNED_INT, 0},         /* highest of memory and GPU */
    {197, 198, UNSIGNED_INT, 0},       /* PCIe bytes, wrapping */
    {199, 199, UNSIGNED_INT, 1},       /* MIG can be asked about whatever its mode */
    {226, 229, UNSIGNED_INT, 0},       /* reset and drain asked for; PCIe atomics */
    {269, 271, UNSIGNED_LONG_LONG, 0}, /* ns slowed down: thermal, thermal, power brake */
};

static void set(nvmlFieldValue_t *value, int type, long long to)
{
    value->valueType = (nvmlValueType_t)type;
    if (type == SIGNED_INT)
        value->value.siVal = (int)to;
    else
        value->value.ullVal = (unsigned long long)to;
}

static bool from_health(const struct gpu *gpu, const struct from_health *known, size_t count,
                        nvmlFieldValue_t *value)
{
    for (size_t i = 0; i < count; i++)
        if (known[i].id == value->fieldId) {
            set(value, known[i].type, gpu->health[known[i].key]);
            return true;
        }
    return false;
}
#define FROM_HEALTH(gpu, table, value) \
    from_health(gpu, table, sizeof(table) / sizeof *(table), value)

/* What depends on the model. */
static bool of_model(const struct call *call, nvmlFieldValue_t *value)
{
    const struct model *model = call->gpu->model;
    switch (value->fieldId) {
    case 91: /* NVLinks on the GPU */
        if (nvlinks(call) == 0)
            return false;
        set(value, UNSIGNED_INT, nvlinks(call));
        return true;
    case 184: /* no reset for MIG */
        set(value, UNSIGNED_INT, model->mig == MIG_AT_ONCE);
        return true;
    case 187: /* lowest power limit, mW */
        set(value, UNSIGNED_INT, model->power_w * 2000 / 7);
        return true;
    case 188: /* highest, default, current, asked for */
    case 189:
    case 190:
    case 192:
        set(value, UNSIGNED_INT, model->power_w * 1000);
        return true;
    default: return false;
    }
}

static nvmlReturn_t answer(const struct call *call, nvmlFieldValue_t *value)
{
    if (value->fieldId == NONE || value->fieldId == EDPP_MULTIPLIER)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < sizeof constant / sizeof *constant; i++)
        if (constant[i].first <= value->fieldId && value->fieldId <= constant[i].last) {
            set(value, constant[i].type, constant[i].value);
            return NVML_SUCCESS;
        }
    bool known = FROM_HEALTH(call->gpu, measured, value) || of_model(call, value) ||
                 (remaps_rows(call->gpu) ? FROM_HEALTH(call->gpu, remapped_rows, value)
                                         : FROM_HEALTH(call->gpu, retired_pages, value));
    return known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
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
        values[i].nvmlReturn = answer(&call, &values[i]);
    }
    return end(&call, NVML_SUCCESS);
}
