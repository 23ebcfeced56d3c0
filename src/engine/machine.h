/*
 * machine: what memory this machine, and the control group we run in, would give us now.
 */
#pragma once

#include <stdint.h>

struct machine_memory {
    uint64_t total_bytes;       /* of the machine, or of the tightest cgroup (v1 or v2, nested too) */
    uint64_t available_bytes;   /* free or reclaimable now, within both */
    uint64_t lock_limit_bytes;  /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    uint64_t group_limit_bytes; /* the tightest limit of our control groups; UINT64_MAX: none */
    char group_file[256];       /* which file says so, or empty */
    uint64_t swap_total_bytes, swap_free_bytes;
    uint64_t waited_us; /* tasks waited for memory so long so far (PSI): of the machine and of our control groups, added up */
    int known;          /* 0: /proc does not tell what is available; a floor was assumed */
};

/* Reads /proc and the control groups; never fails (see known). Pages of files that a group holds count as free: they go first. */
struct machine_memory machine_memory_read(void);
/* The same with root before every path: for tests, and for systems that are mounted somewhere. */
struct machine_memory machine_memory_read_below(const char *root);
