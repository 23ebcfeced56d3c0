/*
 * folder_fixture: for tests that make a folder of their own.
 */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

static inline int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

/* With all that is in it, links not followed. 0: it is gone. */
static inline int remove_folder(const char *path) { return nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }
