/* youtu: Youtu-LLM, latent attention and dense feed-forwards. As GGUF it is called deepseek2. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    PARAM_END,
};

const struct arch_spec arch_youtu = {
    .name = "youtu",
    .model_types = ARCH_NAMES("youtu", "youtu_llm"),
    .architectures = ARCH_NAMES("YoutuForCausalLM", "YoutuLLMForCausalLM"),
    .params = params,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
};
