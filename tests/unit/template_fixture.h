/*
 * template_fixture: files of tests/data/templates for the tests of templates and replies.
 */
#pragma once

#include "test_support.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

/* Path of a file of tests/data/templates, in `buffer`. */
static inline const char *template_path(const char *name, char buffer[1024]) {
    const char *folder = getenv("SLUICE_TEST_DATA");
    assert_true(snprintf(buffer, 1024, "%s/templates/%s", folder ? folder : "tests/data", name) < 1024);
    return buffer;
}

/* A JSON file of tests/data/templates; the caller owns it. */
static inline json_t *template_json(const char *name) {
    char path[1024];
    struct error err;
    json_t *json = NULL;
    ASSERT_OK(json_read_file(template_path(name, path), 1 << 24, &json, &err), err);
    return json;
}

static inline struct text json_text(const json_t *string) { return (struct text){json_string_value(string), json_string_length(string)}; }
