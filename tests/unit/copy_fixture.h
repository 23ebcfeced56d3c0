/*
 * copy_fixture: copies of a model's files in folders of their own, every other one in memory where the system has that, so that a test
 * has two devices.
 */
#pragma once

#include "test_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPIES_MAX = 8, COPY_PATH_BYTES = 512 };

struct copies {
    unsigned count;
    char folder[COPIES_MAX][64];
    char path[COPIES_MAX][COPY_PATH_BYTES]; /* what names the copy: its file, or its folder */
};

static inline void copy_file(const char *from, const char *to) {
    static char block[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t got;
    assert_true(in >= 0 && out >= 0);
    while ((got = read(in, block, sizeof block)) > 0)
        assert_int_equal(write(out, block, (size_t)got), got);
    assert_int_equal(got, 0);
    assert_true(close(in) == 0 && close(out) == 0);
}

/* The weights of a folder. */
static inline void copy_folder(const char *from, const char *to) {
    DIR *list = opendir(from);
    char a[COPY_PATH_BYTES], b[COPY_PATH_BYTES];
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (strstr(entry->d_name, ".safetensors") || strstr(entry->d_name, ".gguf")) {
            assert_true(snprintf(a, sizeof a, "%s/%s", from, entry->d_name) < (int)sizeof a);
            assert_true(snprintf(b, sizeof b, "%s/%s", to, entry->d_name) < (int)sizeof b);
            copy_file(a, b);
        }
    assert_int_equal(closedir(list), 0);
}

/* Of a folder, a file, or a set of files of which one is named: then another of them names the copy. */
static inline void copies_make(struct copies *copies, const char *model, unsigned count) {
    struct stat info;
    char set[COPY_PATH_BYTES];
    const char *number = strstr(model, "-00001-of-"), *slash = strrchr(model, '/');
    assert_true(count <= COPIES_MAX && stat(model, &info) == 0 && slash);
    (void)snprintf(set, sizeof set, "%.*s", (int)(slash - model), model);
    copies->count = count;
    for (unsigned i = 0; i < count; i++) {
        bool memory = i % 2 == 0 && access("/dev/shm", W_OK) == 0;
        (void)snprintf(copies->folder[i], sizeof copies->folder[i], "%s/sluice-copy-XXXXXX", memory ? "/dev/shm" : "/var/tmp");
        assert_non_null(mkdtemp(copies->folder[i]));
        (void)snprintf(copies->path[i], sizeof copies->path[i], "%s%s", copies->folder[i], S_ISDIR(info.st_mode) ? "" : "/other name.gguf");
        if (number) {
            copy_folder(set, copies->folder[i]);
            (void)snprintf(copies->path[i], sizeof copies->path[i], "%s%.*s-00003%s", copies->folder[i], (int)(number - slash), slash,
                           number + strlen("-00001"));
        } else if (S_ISDIR(info.st_mode)) {
            copy_folder(model, copies->path[i]);
        } else {
            copy_file(model, copies->path[i]);
        }
    }
}

static inline void copies_remove(struct copies *copies) {
    char path[COPY_PATH_BYTES];
    for (unsigned i = 0; i < copies->count; i++) {
        DIR *list = opendir(copies->folder[i]);
        assert_non_null(list);
        for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
            if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", copies->folder[i], entry->d_name) < (int)sizeof path)
                (void)unlink(path);
        assert_int_equal(closedir(list), 0);
        assert_int_equal(rmdir(copies->folder[i]), 0);
    }
    copies->count = 0;
}
