/* Modules: the head of the PTX is checked as a driver does; the body is not compiled. Kernels are
 * known by name, and do what the project's PTX of that name does. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_process.h"

enum { PUT, CHECK, KERNELS };
static const char *const kernel_names[KERNELS] = {"slicewright_put", "slicewright_check"};
struct CUfunc_st { int kernel; };
struct CUmod_st { struct CUfunc_st functions[KERNELS]; bool has[KERNELS]; };

/* PTX 7.0 came with CUDA 11.0, 8.0 with 12.0, 9.0 with 13.0; each minor version brought one. */
static int newest_ptx(void)
{
    return (driver_cuda() / 1000 - 4) * 10 + driver_cuda() % 1000 / 10;
}

static CUresult check_head(const char *ptx)
{
    int major, minor;
    unsigned target;
    const char *line = strstr(ptx, ".version ");
    if (line == NULL || sscanf(line, ".version %d.%d", &major, &minor) != 2)
        return CUDA_ERROR_INVALID_PTX;
    if (major * 10 + minor > newest_ptx())
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    line = strstr(ptx, ".target ");
    if (line == NULL || sscanf(line, ".target sm_%u", &target) != 1)
        return CUDA_ERROR_INVALID_PTX;
    const struct model *model = current()->model;
    return target > model->cuda_major * 10 + model->cuda_minor ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                               : CUDA_SUCCESS;
}

static bool has_entry(const char *ptx, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = ptx; (at = strstr(at, ".entry ")) != NULL; at += strlen(".entry "))
        if (strncmp(at + strlen(".entry "), name, length) == 0 &&
            strchr("( \n\t", at[strlen(".entry ") + length]) != NULL)
            return true;
    return false;
}

static bool balanced(const char *ptx)
{
    int depth = 0;
    for (const char *at = ptx; *at != '\0' && depth >= 0; at++)
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
    return depth == 0;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *ptx = image, *disabled = getenv("CUDA_DISABLE_PTX_JIT");
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (module == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((code = fault("cuModuleLoadData", current())) != CUDA_SUCCESS)
        return code;
    if (disabled != NULL && strcmp(disabled, "1") == 0)
        return CUDA_ERROR_JIT_COMPILATION_DISABLED;
    if ((code = check_head(ptx)) != CUDA_SUCCESS)
        return code;
    if (!balanced(ptx))
        return CUDA_ERROR_INVALID_PTX;
    struct CUmod_st *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < KERNELS; i++) {
        made->functions[i].kernel = i;
        made->has[i] = has_entry(ptx, kernel_names[i]);
    }
    *module = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    return ready();
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (function == NULL || module == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < KERNELS; i++)
        if (module->has[i] && strcmp(name, kernel_names[i]) == 0) {
            *function = &module->functions[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

/* --- launches --- */

static CUresult run_put(void **parameters)
{
    CUdeviceptr buffer;
    unsigned long long words;
    unsigned seed;
    memcpy(&buffer, parameters[0], sizeof buffer);
    memcpy(&words, parameters[1], sizeof words);
    memcpy(&seed, parameters[2], sizeof seed);
    *clock_ms() += (double)words * 4 / bytes_per_ms(current());
    return put_pattern(buffer, words, seed, fault("pattern", current()));
}

static CUresult run_check(void **parameters)
{
    CUdeviceptr buffer, counter;
    unsigned long long words, wrong;
    unsigned seed;
    memcpy(&buffer, parameters[0], sizeof buffer);
    memcpy(&words, parameters[1], sizeof words);
    memcpy(&seed, parameters[2], sizeof seed);
    memcpy(&counter, parameters[3], sizeof counter);
    *clock_ms() += (double)words * 4 / bytes_per_ms(current()) * 0.9; /* reading is faster */
    CUresult code = count_wrong(buffer, words, seed, &wrong);
    return code != CUDA_SUCCESS || wrong == 0 ? code : add_to_word(counter, (unsigned)wrong);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **parameters, void **extra)
{
    (void)stream;
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (function == NULL || parameters == NULL || extra != NULL || grid_x * grid_y * grid_z == 0 ||
        block_x * block_y * block_z == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (block_x * block_y * block_z > 1024 || shared > 48 * 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if ((code = fault("cuLaunchKernel", current())) != CUDA_SUCCESS)
        return code;
    return function->kernel == PUT ? run_put(parameters) : run_check(parameters);
}
