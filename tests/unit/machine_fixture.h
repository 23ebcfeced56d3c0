/*
 * machine_fixture: a machine that is a folder, for what reads /proc and /sys below a root. begin and end are a group's setup and teardown.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder_fixture.h"
#include "test_support.h"

static char root[64]; /* of the machine */

/* Writes root/path, with the folders that it needs. */
static void put(const char *path, const char *text) {
    char whole[512];
    (void)snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = 0;
        (void)mkdir(whole, 0700);
    }
    FILE *file = fopen(whole, "w");
    assert_true(file && fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(root, sizeof root, "/var/tmp/sluice-root-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int end(void **state) {
    (void)state;
    return remove_folder(root);
}
