// Hugging Face's families: every preset has the published number of parameters; config.json files, good, unknown and hostile.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "whatfits/estimate.h"
#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

std::vector<std::string> lines_of(const std::string& request) {
  std::vector<std::string> lines;
  for (const Problem& problem : parse_request(request).problems) lines.push_back(to_line(problem));
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<std::string> lines_with_model(const std::string& model) { return lines_of(R"({"model": )" + model + "}"); }

TEST_CASE("every preset's program has the published number of parameters", "[hf]") {
  const auto presets = model_presets();
  CHECK(presets.size() >= 70);
  for (const ModelPreset& preset : presets) {
    INFO(preset.id);
    Config config;
    config.model = preset.config;
    config.seq_len = 2;
    if (preset.config.model_type != "gpt2-from-scratch") config.attention = Attention::sdpa;
    CHECK(record(config).parameters == preset.parameters);
  }
}

TEST_CASE("a preset is the same model as its config.json", "[hf]") {
  for (const ModelPreset& preset : model_presets()) {
    INFO(preset.id);
    Config config = parse_request(R"({"model": ")" + preset.id + R"("})").config;
    CHECK(config.model == preset.config);
    config.model.preset.clear();
    const auto written = request_json(config);
    REQUIRE(written["model"].is_object());
    const ParsedRequest again = parse_request(written);
    REQUIRE(again.problems.empty());
    CHECK(again.config == config);
  }
}

TEST_CASE("Falcon's shapes, written and read again", "[hf]") {
  // 40B: 65024 * 8192 for the embedding, 60 blocks of 2 norms, (2 * 8 + 128) * 64 rows of query, key and value, a square output and an
  // MLP of 4 times the width, and a norm at the end. RW-1B: 24 blocks with biases everywhere, by the same sums.
  struct Shape {
    const char* model;
    std::uint64_t parameters;
  };
  const std::uint64_t C = 8192;
  const std::uint64_t block = 4 * C + (2 * 8 + 128) * 64 * C + C * C + 8 * C * C;
  const std::uint64_t c = 2048;
  const std::uint64_t old_block = 4 * c + 3 * c * c + 3 * c + c * c + c + 8 * c * c + 5 * c;
  const Shape shapes[] = {
      {R"({"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8, "num_hidden_layers": 60,
          "new_decoder_architecture": true})",
       65024 * C + 60 * block + 2 * C},
      {R"({"model_type": "falcon", "vocab_size": 50304, "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 24,
          "alibi": true, "multi_query": false, "parallel_attn": false, "bias": true})",
       50304 * c + 24 * old_block + 2 * c},
  };
  for (const Shape& shape : shapes) {
    INFO(shape.model);
    ParsedRequest parsed = parse_request(std::string(R"({"seq_len": 8, "model": )") + shape.model + "}");
    REQUIRE(parsed.problems.empty());
    CHECK(record(parsed.config).parameters == shape.parameters);
    const ParsedRequest again = parse_request(request_json(parsed.config));
    REQUIRE(again.problems.empty());
    CHECK(again.config == parsed.config);
  }
}

TEST_CASE("a config.json as published is read, keys of no account and older names included", "[hf]") {
  const ParsedRequest llama = parse_request(R"({"model": {"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float32", "transformers_version": "4.31.0.dev0",
    "use_cache": true, "vocab_size": 32000}})");
  REQUIRE(llama.problems.empty());
  CHECK(llama.config.model.head_dim == 64);
  CHECK(llama.config.model.n_kv_head == 4);
  CHECK(record(llama.config).parameters == 1100048384);  // TinyLlama 1.1B
}

TEST_CASE("an unknown model type is refused by name, or read as Llama's on request", "[hf]") {
  const std::string model = R"({"model_type": "my-llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 128})";
  const auto refused = lines_with_model(model);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find("model.model_type: \"my-llama\" is not allowed: must be one of") == 0);
  CHECK(lines_with_model(R"({"model_type": "qwen4"})").at(0).find("did you mean qwen") != std::string::npos);

  const ParsedRequest assumed = parse_request(R"({"assume": "llama", "model": )" + model + "}");
  REQUIRE(assumed.problems.empty());
  CHECK(assumed.config.model.assumed_from == "my-llama");
  const ParsedRequest again = parse_request(request_json(assumed.config));
  CHECK(again.config == assumed.config);
  const Program program = record(assumed.config);
  CHECK(std::any_of(program.notes.begin(), program.notes.end(),
                    [](const std::string& note) { return note.find("my-llama") != std::string::npos; }));
  CHECK(lines_of(R"({"assume": "llama", "model": {"model_type": "x"}})").size() == 5);
  CHECK(lines_of(R"({"assume": "gpt", "model": "gpt2"})").size() == 1);
}

TEST_CASE("hostile config.json files are refused in words", "[hf]") {
  const auto llama = [](const std::string& keys) { return lines_with_model(R"({"model_type": "llama", )" + keys + "}"); };
  CHECK(llama(R"("hidden_size": 4097)") ==
        std::vector<std::string>{"model.model_type: the number of heads (32) must divide the width (4097)"});
  CHECK(llama(R"("num_key_value_heads": 5)") ==
        std::vector<std::string>{"model.num_key_value_heads: 5 must divide the number of heads (32)"});
  CHECK(llama(R"("head_dim": 7)") ==
        std::vector<std::string>{"model.head_dim: rotary embeddings need an even number of dimensions, not 7"});
  for (const char* keys :
       {R"("hidden_size": -1)", R"("hidden_size": 1e300)", R"("hidden_size": "4096")", R"("num_hidden_layers": 0)",
        R"("num_hidden_layers": [])", R"("vocab_size": 99999999999999999999)", R"("hidden_act": "quick_gelu")", R"("hidden_act": {})",
        R"("attention_dropout": 1)", R"("attention_dropout": "0")", R"("tie_word_embeddings": 1)", R"("rope_parameters": [])",
        R"("rope_scaling": {"rope_type": "longrope"})", R"("rope_parameters": {"partial_rotary_factor": -1})",
        R"("quantization_config": {"bits": 4})", R"("intermediate_size": 0)", R"("head_dim": 0)", R"("num_attention_heads": 1.5)"}) {
    INFO(keys);
    CHECK(llama(keys).size() == 1);
  }
  CHECK(lines_with_model(R"({"model_type": "gptj", "rotary_dim": 65})") ==
        std::vector<std::string>{"model.rotary_dim: 65 must be even and at most the width of a head (256)"});
  CHECK(lines_with_model(R"({"model_type": "gptj", "n_head": 128})").size() == 1);  // rotary_dim is 64, a head 32 wide
  CHECK(lines_of(R"({"model": "gpt-j-6b", "attention": "sdpa"})") ==
        std::vector<std::string>{"attention: \"sdpa\" is not allowed: must be eager: the code of gptj has no other"});
  CHECK(lines_with_model(R"({"model_type": "gpt_bigcode", "multi_query": 1})").size() == 1);
  const auto falcon = [](const std::string& keys) { return lines_with_model(R"({"model_type": "falcon", )" + keys + "}"); };
  CHECK(falcon(R"("new_decoder_architecture": true, "parallel_attn": false, "num_kv_heads": 71)") ==
        std::vector<std::string>{"model.parallel_attn: must be true with new_decoder_architecture"});
  CHECK(falcon(R"("num_ln_in_parallel_attn": 2)") ==
        std::vector<std::string>{"model.num_ln_in_parallel_attn: must be 1 or null without new_decoder_architecture"});
  CHECK(falcon(R"("multi_query": false, "num_kv_heads": 8)") ==
        std::vector<std::string>{"model.num_kv_heads: must be num_attention_heads (71) or null without new_decoder_architecture"});
  CHECK(falcon(R"("num_kv_heads": 8)").empty());  // with multi_query nobody asks
  CHECK(falcon(R"("alibi": 1)").size() == 1);
  CHECK(falcon(R"("ffn_hidden_size": -4)").size() == 1);
  CHECK(lines_of(R"({"model": "falcon-7b", "attention": "sdpa-flash", "precision": "bf16"})") ==
        std::vector<std::string>{"attention: \"sdpa-flash\" is not allowed: has no kernel for a mask, which this model and script make"});
  CHECK(lines_of(R"({"model": "falcon-7b", "attention": "sdpa-efficient"})") ==
        std::vector<std::string>{"attention: \"sdpa-efficient\" is not allowed: has no kernel for fewer key heads than query heads"});
  CHECK(lines_with_model(R"({"model_type": "phi3", "rope_scaling": {"type": "longrope"}})").size() == 1);
  CHECK(lines_with_model(R"({"model_type": "qwen3_moe", "mlp_only_layers": [0]})").size() == 1);
  CHECK(lines_with_model(R"({"model_type": "qwen3_moe", "num_experts": 4})") ==
        std::vector<std::string>{"model.num_experts_per_tok: 8 must be at most the number of experts (4)"});
  CHECK(lines_with_model(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})").size() == 1);
  CHECK(lines_with_model(R"({"model_type": ["llama"]})").size() == 1);
  CHECK(lines_with_model(R"({"model_type": "llama", "hidden_size": 1048576, "num_attention_heads": 1, "num_hidden_layers": 10000,
    "intermediate_size": 4194304, "vocab_size": 16777216})") ==
        std::vector<std::string>{"model: is too large: a step's tensors must stay below 2^60 bytes"});
}

}  // namespace
}  // namespace whatfits
