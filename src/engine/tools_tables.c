/*
 * tools_tables: include/sluice_tools.h: docs/FAMILIES.md and docs/FORMATS.md, from the tables that the program works by.
 */
#include <stdio.h>

#include "backend/backend.h"
#include "dtype/encode.h"
#include "dtype/matrix.h"
#include "model/arch.h"
#include "sluice_tools.h"

/* Names in one cell; nothing for an empty list. */
static void print_names(FILE *out, const char *const *names) {
    (void)fprintf(out, " |");
    for (const char *const *n = names; n && *n; n++)
        (void)fprintf(out, "%s `%s`", n == names ? "" : ",", *n);
}

void sluice_tool_family_table(FILE *out) {
    uint32_t count;
    const struct arch_spec *const *rows = arch_list(&count);
    (void)fprintf(out,
                  "# Model families\n\nWritten by `sluice --family-table`; a test compares. A family is found by `model_type`, then by "
                  "`architectures`, in a wrapper by those of\nits text model; in GGUF by `general.architecture`. "
                  "[ADD_A_MODEL.md](ADD_A_MODEL.md) adds one.\n\n| family | model_type | architectures | GGUF |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "| %s", rows[i]->name);
        print_names(out, rows[i]->model_types);
        print_names(out, rows[i]->architectures);
        print_names(out, rows[i]->gguf);
        (void)fprintf(out, " |\n");
    }
}

static const char *product_of(unsigned format) { return cpu_backend_supports(CPU_ISA_REF, false, format) ? "yes" : "no"; }

void sluice_tool_format_table(FILE *out) {
    (void)fprintf(
        out,
        "# Number formats\n\nWritten by `sluice --format-table`; a test compares. All of them are read and decoded (`inspect --dump`); "
        "*runs* says whether weights may be in it,\n*pack* whether `pack --type` writes it. [ADD_A_FORMAT.md](ADD_A_FORMAT.md) adds "
        "one.\n\n"
        "## Scales inside of blocks, or none\n\n| format | elements | bytes | bits a weight | GGUF type | safetensors | runs | pack |\n"
        "|---|---|---|---|---|---|---|---|\n");
    for (enum dtype d = 0; d < DTYPE_COUNT; d++) {
        const struct dtype_info *info = dtype_info(d);
        char id[16] = "";
        if (info->gguf_id >= 0)
            (void)snprintf(id, sizeof id, "%d", (int)info->gguf_id);
        (void)fprintf(out, "| %s | %u | %u | %.4g | %s | %s | %s | %s |\n", info->name, info->block_elements, info->block_bytes,
                      8.0 * info->block_bytes / info->block_elements, id, info->safetensors_name ? info->safetensors_name : "",
                      product_of(d), dtype_can_encode(d) ? "yes" : "");
    }
    (void)fprintf(out, "\n## Scales in tensors of their own\n\n| format | where, and what | runs | pack |\n|---|---|---|---|\n");
    for (unsigned format = DTYPE_COUNT; format < MATRIX_FORMAT_COUNT; format++)
        (void)fprintf(out, "| %s | %s | %s | %s |\n", matrix_format_name(format), matrix_format_origin(format), product_of(format),
                      format == MATRIX_AFFINE ? "4, 8 bits" : "");
}
