/* The table of GPU models. */
#include <string.h>

#include "silicon.h"

static const struct model models[] = {
#define MODEL(...) {__VA_ARGS__},
#define SLICE(...)
#include "models.def"
#undef MODEL
#undef SLICE
};

static const struct slice slices[] = {
#define MODEL(...)
#define SLICE(...) {__VA_ARGS__},
#include "models.def"
#undef MODEL
#undef SLICE
};

enum { MODELS = sizeof models / sizeof *models, SLICES = sizeof slices / sizeof *slices };

const struct model *model_by_key(const char *key)
{
    for (int i = 0; i < MODELS; i++)
        if (strcmp(models[i].key, key) == 0)
            return &models[i];
    return NULL;
}

const struct slice *slice_by_profile(const struct model *model, unsigned profile)
{
    for (int i = 0; i < SLICES; i++)
        if (slices[i].profile == profile && strcmp(slices[i].model, model->key) == 0)
            return &slices[i];
    return NULL;
}

const struct slice *slice_by_id(const struct model *model, unsigned id)
{
    for (int i = 0; i < SLICES; i++)
        if (slices[i].id == id && strcmp(slices[i].model, model->key) == 0)
            return &slices[i];
    return NULL;
}

/* The profile of the whole GPU: id 0 in every family. Its engines are all that the GPU has. */
const struct slice *slice_whole(const struct model *model)
{
    return slice_by_id(model, 0);
}
