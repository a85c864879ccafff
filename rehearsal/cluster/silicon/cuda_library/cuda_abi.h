/* The part of CUDA's driver API that the fake has: NVIDIA's types and values under NVIDIA's names.
 * Source: NVIDIA, CUDA Driver API reference manual. Functions have the names that the library of
 * the driver exports; where cuda.h maps a name to another version, it is the mapped one. */
#ifndef SLICEWRIGHT_CUDA_ABI_H
#define SLICEWRIGHT_CUDA_ABI_H

#include <stddef.h>

#ifdef SLICEWRIGHT_CUDA_HEADER /* to compare the signatures with NVIDIA's: compile with -D... */
#include <cuda.h>
#undef cuDeviceGetUuid
#else

/* Codes are numbers of errors.def; CUDA_* names are in the enum. */
typedef enum cuda_result {
#define CUDA_CODE(code, name) name = code,
#include "errors.def"
#undef CUDA_CODE
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct { char bytes[16]; } CUuuid;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;

typedef enum cuda_device_attribute {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
} CUdevice_attribute;

#endif
#endif
