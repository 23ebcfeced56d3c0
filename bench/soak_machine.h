/*
 * soak_machine: a machine that is a folder, on which another program takes memory and gives it back, so that a model's weights are
 * under pressure by the engine's own way of looking (engine/pressure.h).
 *
 * Model    The folder has proc/meminfo and proc/pressure/memory. There is room for all weights that may be given back (cache, trunk)
 *          and three reserves beside; every 3 to 25 seconds the other program changes its size: to nothing, or to as much as all of
 *          them. What is available follows their own size, as on a real machine, and whoever finds less than the reserve waits.
 * Threads  the engine's.
 */
#pragma once

#include "engine/engine_internal.h"

struct soak_machine {
    const char *root;      /* borrowed */
    int meminfo, pressure; /* files, open */
    struct sluice_model *model;
    uint64_t most_bytes, reserve_bytes; /* that may be given back; that the watch wants free */
    uint64_t other_bytes;               /* the other program's */
    uint64_t waited_us, told_at_ns, change_at_ns;
    uint64_t random, changes;
};

/*
 * Fills the folder `root`, which is empty, and lets the model watch it; the model must be loaded, and closed before the end. False: the
 * files cannot be made.
 */
bool soak_machine_begin(struct soak_machine *machine, const char *root, struct sluice_model *model, uint64_t seed);
/* Whenever there is time, from a token's callback too: brings the files up to date, every 20 ms at most. */
void soak_machine_live(struct soak_machine *machine);
/* Closes the files; the folder is the caller's to remove. One that never began is allowed. */
void soak_machine_end(struct soak_machine *machine);
