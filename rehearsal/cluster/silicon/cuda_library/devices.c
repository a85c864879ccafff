/* What CUDA says of a device. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cuda_process.h"

/* 0 if *of is set. */
static CUresult device_of(CUdevice number, const void *answer, const struct cuda_device **of)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (answer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (number < 0 || number >= device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *of = &devices[number];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    const struct cuda_device *of;
    CUresult code = device_of(ordinal, device, &of);
    if (code == CUDA_SUCCESS)
        *device = ordinal;
    return code;
}

static CUresult read_uuid(CUuuid *answer, const char *text)
{
    unsigned byte, count = 0;
    for (const char *at = text + 4; *at != '\0' && count < sizeof answer->bytes; at++) {
        if (*at == '-')
            continue;
        if (sscanf(at, "%2x", &byte) != 1)
            break;
        answer->bytes[count++] = (char)byte;
        at++;
    }
    return CUDA_SUCCESS;
}

/* The plain symbol gives the GPU's, also of a MIG device (inferred from the manual's words). */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    const struct cuda_device *of;
    CUresult code = device_of(device, uuid, &of);
    return code != CUDA_SUCCESS ? code : read_uuid(uuid, of->gpu_uuid);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    const struct cuda_device *of;
    CUresult code = device_of(device, uuid, &of);
    return code != CUDA_SUCCESS ? code : read_uuid(uuid, of->uuid);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    const struct cuda_device *of;
    CUresult code = device_of(device, name, &of);
    if (code == CUDA_SUCCESS && length > 0)
        snprintf(name, (size_t)length, "%s", of->name);
    return code;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    const struct cuda_device *of;
    CUresult code = device_of(device, bytes, &of);
    if (code == CUDA_SUCCESS)
        *bytes = (size_t)of->memory;
    return code;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const struct cuda_device *of;
    CUresult code = device_of(device, value, &of);
    if (code != CUDA_SUCCESS)
        return code;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = (int)of->sms; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = (int)compute_mode(of); break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *value = of->ecc; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = (int)of->bus; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = (int)of->slot; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = (int)of->domain; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = (int)of->model->cuda_major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = (int)of->model->cuda_minor; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
