/*
 * arch_registry: the list of families, and which one a model belongs to.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "model/arch/arch_rows.h"

static const struct arch_spec *const rows[] = {
#define ARCH_ROW(name) &arch_##name,
#include "model/arch/arch_list.inc"
#undef ARCH_ROW
};

const struct arch_spec *const *arch_list(uint32_t *count) {
    *count = sizeof rows / sizeof *rows;
    return rows;
}

enum name_kind { NAME_GGUF, NAME_MODEL_TYPE, NAME_ARCHITECTURE };

static const char *const *names_of(const struct arch_spec *arch, enum name_kind kind) {
    return kind == NAME_GGUF ? arch->gguf : kind == NAME_MODEL_TYPE ? arch->model_types : arch->architectures;
}

static const struct arch_spec *find_name(struct text name, enum name_kind kind) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *const *n = names_of(rows[i], kind); n && *n; n++)
            if (text_is(name, *n))
                return rows[i];
    return NULL;
}

/* The three known names nearest to an unknown one. */
static enum status unsupported(const struct catalogue *catalogue, struct text name, enum name_kind kind, struct error *err) {
    const char *best[3] = {NULL, NULL, NULL};
    unsigned distance[3] = {~0u, ~0u, ~0u};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *const *n = names_of(rows[i], kind); n && *n; n++) {
            unsigned d = text_distance(name, text_of(*n));
            for (int place = 0; place < 3; place++)
                if (d < distance[place]) {
                    for (int j = 2; j > place; j--)
                        best[j] = best[j - 1], distance[j] = distance[j - 1];
                    best[place] = *n, distance[place] = d;
                    break;
                }
        }
    return error_set(err, STATUS_UNSUPPORTED, "%s: models of architecture '%.*s' are not supported (nearest that are: %s, %s, %s)",
                     catalogue_path(catalogue), TEXT_ARGUMENTS(name), best[0] ? best[0] : "-", best[1] ? best[1] : "-",
                     best[2] ? best[2] : "-");
}

enum status arch_find(const struct catalogue *catalogue, const struct arch_spec **out, char *prefix, size_t prefix_bytes,
                      struct error *err) {
    struct text name = TEXT("");
    *out = NULL;
    if (catalogue_world(catalogue) == CATALOGUE_GGUF) {
        if (!meta_text(catalogue_meta(catalogue, "general.architecture"), &name))
            return error_set(err, STATUS_CORRUPT, "%s: general.architecture is missing or no text: this GGUF file holds no language model",
                             catalogue_path(catalogue));
        int length = snprintf(prefix, prefix_bytes, "%.*s.", TEXT_ARGUMENTS(name));
        if (length < 0 || (size_t)length >= prefix_bytes)
            return error_set(err, STATUS_CORRUPT, "%s: general.architecture is %zu bytes long", catalogue_path(catalogue), name.size_bytes);
        *out = find_name(name, NAME_GGUF);
        return *out ? STATUS_OK : unsupported(catalogue, name, NAME_GGUF, err);
    }
    bool wrapped = catalogue_meta(catalogue, "text_config/hidden_size") || catalogue_meta(catalogue, "text_config/model_type");
    (void)snprintf(prefix, prefix_bytes, "%s", wrapped ? "text_config/" : "");
    if (meta_text(catalogue_meta(catalogue, "text_config/model_type"), &name) && (*out = find_name(name, NAME_MODEL_TYPE)))
        return STATUS_OK;
    struct text top = name;
    if (meta_text(catalogue_meta(catalogue, "model_type"), &top) && (*out = find_name(top, NAME_MODEL_TYPE)))
        return STATUS_OK;
    struct text architecture;
    if (meta_array_text(catalogue_meta(catalogue, "architectures"), 0, &architecture) &&
        (*out = find_name(architecture, NAME_ARCHITECTURE)))
        return STATUS_OK;
    if (top.size_bytes == 0)
        return error_set(err, STATUS_CORRUPT, "%s: config.json has no model_type: it does not say what kind of model this is",
                         catalogue_path(catalogue));
    return unsupported(catalogue, top, NAME_MODEL_TYPE, err);
}
