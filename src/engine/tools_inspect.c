/*
 * tools_inspect: include/sluice_tools.h: printing what a model is made of.
 */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "engine/inspect.h"
#include "sluice_tools.h"

#define KEY_WIDTH 24

static void print_scalar(FILE *out, const char *key, const json_t *value) {
    char size[32];
    if (json_is_integer(value) && strstr(key, "bytes"))
        (void)fprintf(out, " %s", text_format_size((uint64_t)json_integer_value(value), size, sizeof size));
    else if (json_is_integer(value))
        (void)fprintf(out, " %" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_string(value))
        (void)fprintf(out, " %s", json_string_value(value));
}

static void print_tensor(FILE *out, const json_t *tensor) {
    char *shape = json_dumps(json_object_get(tensor, "shape"), JSON_COMPACT);
    (void)fprintf(out, "  %-48s %-8s %s\n", json_string_value(json_object_get(tensor, "name")),
                  json_string_value(json_object_get(tensor, "format")), shape ? shape : "");
    memory_free(shape);
}

/* Numbers of a list stand in one line, texts in a line each. */
static void print_list(FILE *out, const char *key, const json_t *list) {
    json_t *item;
    size_t index;
    json_array_foreach(list, index, item) {
        if (json_is_object(item)) {
            print_tensor(out, item);
        } else if (json_is_string(item)) {
            (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, index == 0 ? key : "", json_string_value(item));
        } else {
            if (index == 0)
                (void)fprintf(out, "%-*s", KEY_WIDTH, key);
            print_scalar(out, key, item);
        }
    }
    if (json_is_integer(json_array_get(list, 0)))
        (void)fprintf(out, "\n");
}

void inspect_print(const json_t *root, FILE *out) {
    const char *key, *format;
    json_t *value, *share;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        if (json_is_array(value)) {
            print_list(out, key, value);
            continue;
        }
        (void)fprintf(out, "%-*s", KEY_WIDTH, key);
        if (json_is_object(value))
            json_object_foreach(value, format, share)(void) fprintf(out, " %s %.1f %%", format, 100 * json_real_value(share));
        else
            print_scalar(out, key, value);
        (void)fprintf(out, "\n");
    }
}

sluice_status sluice_tool_inspect(const char *path, bool json, bool tensors, FILE *out, sluice_error *error) {
    struct error err = {0};
    json_t *root = NULL;
    enum status status = inspect_path(path, tensors, &root, &err);
    if (status == STATUS_OK && json) {
        (void)json_dumpf(root, out, JSON_INDENT(2));
        (void)fputc('\n', out);
    } else if (status == STATUS_OK) {
        inspect_print(root, out);
    }
    json_decref(root);
    return engine_report(status, &err, error);
}
