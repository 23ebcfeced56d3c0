/*
 * cpu_info: what this processor and its operating system allow. Asks the machine on each call: keep the answers.
 */
#pragma once

#include <stdbool.h>

/* Levels that kernels are written for; each needs all of its features, and the system's support for its registers. */
enum cpu_isa {
    CPU_ISA_REF,     /* plain C */
    CPU_ISA_AVX2,    /* AVX2 + FMA + F16C */
    CPU_ISA_AVX512,  /* F, BW, DQ, VL, VNNI */
    CPU_ISA_AMX,     /* AVX512 + AMX tile, int8, with permission from the kernel */
    CPU_ISA_NEON,    /* every 64-bit ARM */
    CPU_ISA_DOTPROD, /* NEON + dot products of bytes */
    CPU_ISA_I8MM,    /* DOTPROD + matrix products of bytes */
    CPU_ISA_COUNT,
};

const char *cpu_isa_name(enum cpu_isa isa); /* "ref", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm" */
/* Asking for CPU_ISA_AMX also asks the kernel for the permission. */
bool cpu_isa_available(enum cpu_isa isa);
enum cpu_isa cpu_isa_best(void);
/* Processors this process may run on (affinity and cgroup quota), at least 1. */
unsigned cpu_count(void);
/* Tells the processor that this is a waiting loop. */
void cpu_pause(void);
/* "AMD EPYC ..." or "unknown"; borrowed, constant. */
const char *cpu_model_name(void);
