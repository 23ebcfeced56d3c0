/*
 * arch_rows: what the files of this folder share: a NULL-terminated list of names, and the rows that arch_registry.c lists.
 */
#pragma once

#include <stddef.h>

#include "model/arch.h"

#define ARCH_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

extern const struct arch_spec arch_afmoe;
extern const struct arch_spec arch_apertus;
extern const struct arch_spec arch_bailing_hybrid;
extern const struct arch_spec arch_bailing_moe;
extern const struct arch_spec arch_bailing_moe_linear;
extern const struct arch_spec arch_cohere2;
extern const struct arch_spec arch_cohere;
extern const struct arch_spec arch_deepseek;
extern const struct arch_spec arch_deepseek_v2;
extern const struct arch_spec arch_deepseek_v3;
extern const struct arch_spec arch_deepseek_v32;
extern const struct arch_spec arch_dots1;
extern const struct arch_spec arch_ernie4_5;
extern const struct arch_spec arch_ernie4_5_moe;
extern const struct arch_spec arch_eagle; /* drafters: not in the registry, they are no models of their own */
extern const struct arch_spec arch_eagle_alone;
extern const struct arch_spec arch_exaone4;
extern const struct arch_spec arch_exaone_moe;
extern const struct arch_spec arch_gemma2;
extern const struct arch_spec arch_gemma3;
extern const struct arch_spec arch_gemma4;
extern const struct arch_spec arch_falcon_h1;
extern const struct arch_spec arch_gemma;
extern const struct arch_spec arch_glm;
extern const struct arch_spec arch_glm4;
extern const struct arch_spec arch_glm4_moe;
extern const struct arch_spec arch_glm_moe_dsa;
extern const struct arch_spec arch_gpt_oss;
extern const struct arch_spec arch_granite;
extern const struct arch_spec arch_granitemoe;
extern const struct arch_spec arch_granitemoehybrid;
extern const struct arch_spec arch_helium;
extern const struct arch_spec arch_hunyuan_v1_dense;
extern const struct arch_spec arch_hunyuan_v1_moe;
extern const struct arch_spec arch_internlm3;
extern const struct arch_spec arch_kimi_linear;
extern const struct arch_spec arch_lfm2;
extern const struct arch_spec arch_lfm2_moe;
extern const struct arch_spec arch_llama4;
extern const struct arch_spec arch_llama;
extern const struct arch_spec arch_mimo;
extern const struct arch_spec arch_mimo_v2_flash;
extern const struct arch_spec arch_minimax_m2;
extern const struct arch_spec arch_ministral3;
extern const struct arch_spec arch_mistral;
extern const struct arch_spec arch_mistral4;
extern const struct arch_spec arch_mixtral;
extern const struct arch_spec arch_nemotron;
extern const struct arch_spec arch_nemotron_h;
extern const struct arch_spec arch_olmo2;
extern const struct arch_spec arch_olmoe;
extern const struct arch_spec arch_phi3;
extern const struct arch_spec arch_phi;
extern const struct arch_spec arch_qwen2;
extern const struct arch_spec arch_qwen2_moe;
extern const struct arch_spec arch_qwen3;
extern const struct arch_spec arch_qwen3_5;
extern const struct arch_spec arch_qwen3_5_moe;
extern const struct arch_spec arch_qwen3_moe;
extern const struct arch_spec arch_qwen3_next;
extern const struct arch_spec arch_qwen3_vl_moe;
extern const struct arch_spec arch_seed_oss;
extern const struct arch_spec arch_smollm3;
extern const struct arch_spec arch_stablelm;
extern const struct arch_spec arch_starcoder2;
extern const struct arch_spec arch_step3p5;
extern const struct arch_spec arch_telechat3;
extern const struct arch_spec arch_youtu;
