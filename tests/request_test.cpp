// The request: defaults, round trip, every kind of mistake with its exact line, hostile text, and the truth file's requests.
#include "whatfits/request.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "whatfits/presets.h"

namespace {

using namespace whatfits;
using nlohmann::json;

std::vector<std::string> lines(const ParsedRequest& parsed) {
  std::vector<std::string> out;
  for (const Problem& problem : parsed.problems) out.push_back(to_line(problem));
  return out;
}

std::vector<std::string> lines_of(const std::string& text) { return lines(parse_request(text)); }

// The lines for a request of the default model and one more key.
std::vector<std::string> lines_with(const std::string& key_and_value) {
  return lines_of(R"({"model": "gpt2-from-scratch", )" + key_and_value + "}");
}

using Lines = std::vector<std::string>;

Config parsed(const std::string& text) {
  const ParsedRequest request = parse_request(text);
  CHECK(lines(request) == Lines{});
  return request.config;
}

void check_round_trip(const Config& config) {
  const std::string written = request_json(config).dump();
  INFO(written);
  const ParsedRequest again = parse_request(written);
  CHECK(lines(again) == Lines{});
  CHECK(again.config == config);
  CHECK(parse_request(request_json(config)) == again);
  CHECK(request_json(again.config).dump() == written);
}

}  // namespace

TEST_CASE("a model alone is the default run", "[request]") {
  const Config config = parsed(R"({"model": "gpt2-from-scratch"})");
  Config expected;
  expected.model.preset = "gpt2-from-scratch";
  expected.device.preset = "a40";
  CHECK(config == expected);
  CHECK(config.seq_len == 1024);
  CHECK(config.attention == Attention::eager);
  CHECK(config.device.free_mib == 45440);
  CHECK(parsed(R"({"model": {"model_type": "gpt2-from-scratch", "n_positions": 4096}})").seq_len == 2048);
}

TEST_CASE("every key is written out and read back", "[request]") {
  CHECK(request_json(parsed(R"({"model": "gpt2-from-scratch"})")).dump() ==
        R"({"model":"gpt2-from-scratch","batch":1,"seq_len":1024,"precision":"fp32","attention":"eager","optimizer":"adamw",)"
        R"("checkpointing":"none","loss":"default","grad_accumulation":1,"clip_grad_norm":false,"zero_grad":"set-to-none",)"
        R"("lora":null,"trainable":"all","dropout":null,"parallel":null,"allocator":{"expandable_segments":false,)"
        R"("max_split_size_mib":null,"roundup_power2_divisions":0,"garbage_collection_threshold":0},"engine":"torch",)"
        R"("torch":"2.6","transformers":"5.12","device":"a40","steps":3,"script":{"warmup_matmul":8,"outputs":"keep",)"
        R"("attention_mask":"none","zero_grad_at":"end","loss":"model","data":"each-step","use_cache":null}})");
  check_round_trip(parsed(R"({"model": {"model_type": "gpt2-from-scratch", "vocab_size": 65, "n_positions": 256, "n_embd": 384,
    "n_head": 6, "n_layer": 6}, "batch": 8.0, "seq_len": 1e2, "precision": "amp-bf16", "attention": "sdpa-flash",
    "optimizer": "sgd-momentum", "checkpointing": "full", "grad_accumulation": 4, "clip_grad_norm": true, "zero_grad": "zero-fill",
    "allocator": {"expandable_segments": true}, "device": {"name": "Ärger", "total_mib": 24000, "compute_capability": "9.0",
    "sm_count": 170}, "steps": 64, "script": {"warmup_matmul": -0}})"));
  check_round_trip(parsed(R"({"model": "gpt2-from-scratch-xl", "engine": "formula", "device": {"free_mib": 4000}})"));
  for (const DevicePreset& preset : device_presets()) {
    if (preset.device.free_mib == 0) continue;
    const std::string engine = preset.missing.empty() ? "torch" : "formula";
    const Config config = parsed(R"({"model": "gpt2-from-scratch", "engine": ")" + engine + R"(", "device": ")" + preset.id + "\"}");
    CHECK(config.device == preset.device);
    check_round_trip(config);
  }
  Config changed = parsed(R"({"model": "gpt2-from-scratch"})");
  changed.device.free_mib = 40000;  // no longer the preset: written as an object
  CHECK(request_json(changed)["device"]["free_mib"] == 40000);
}

TEST_CASE("all requests of the truth file parse and round trip", "[request][fixtures]") {
  std::ifstream file(WHATFITS_FIXTURES "/torch/gpt2-from-scratch.jsonl");
  REQUIRE(file);
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const json row = json::parse(line);
    INFO(row["id"]);
    const ParsedRequest request = parse_request(row["request"]);
    REQUIRE(lines(request) == Lines{});
    check_round_trip(request.config);
    for (const json& step : row["truth"]["steps"]) {
      if (step.contains("peak")) CHECK(step["peak"]["allocated"].get<Bytes>() < bytes_bound(request.config));
    }
    const auto written = request_json(request.config);
    for (const auto& [key, value] : row["request"].items()) {
      if (!value.is_object()) CHECK(json(written[key]) == value);
    }
    CHECK(json(written["device"]) == row["request"]["device"]);
  }
  CHECK(rows == 106);
}

TEST_CASE("numbers", "[request]") {
  const std::string must = "must be a whole number from 1 to 1048576";
  for (const char* value : {"-3", "0", "2.5", "1048577", "18446744073709551615", "-9223372036854775808", "true", "null", "[]"}) {
    CHECK(lines_with(std::string("\"batch\": ") + value) == Lines{std::string("batch: \"") + value + "\" is not allowed: " + must});
  }
  CHECK(lines_with(R"("batch": "8")") == Lines{"batch: \"8\" is not allowed: " + must + ", written without quotes"});
  CHECK(lines_with(R"("batch": "-3")") == Lines{"batch: \"-3\" is not allowed: " + must});
  CHECK(lines_with(R"("batch": "")") == Lines{"batch: \"\" is not allowed: " + must});
  CHECK(lines_with(R"("batch": 1e300)") == Lines{"batch: \"1e+300\" is not allowed: " + must});
  CHECK(lines_with(R"("batch": 1e-300)") == Lines{"batch: \"1e-300\" is not allowed: " + must});
  CHECK(lines_with(R"("batch": -0)") == Lines{"batch: \"0\" is not allowed: " + must});
  CHECK(lines_with(R"("batch": -0.0)") == Lines{"batch: \"-0.0\" is not allowed: " + must});
  CHECK(lines_with(R"("grad_accumulation": 1025)") ==
        Lines{"grad_accumulation: \"1025\" is not allowed: must be a whole number from 1 to 1024"});
  CHECK(lines_with(R"("steps": 65)") == Lines{"steps: \"65\" is not allowed: must be a whole number from 1 to 64"});
  CHECK(lines_with(R"("script": {"warmup_matmul": 65537})") ==
        Lines{"script.warmup_matmul: \"65537\" is not allowed: must be a whole number from 0 to 65536"});
  CHECK(lines_with(R"("clip_grad_norm": "true")") ==
        Lines{"clip_grad_norm: \"true\" is not allowed: must be true or false, written without quotes"});
  CHECK(lines_with(R"("clip_grad_norm": 1)") == Lines{"clip_grad_norm: \"1\" is not allowed: must be true or false"});
  CHECK(lines_with(R"("seq_len": 1025)") == Lines{"seq_len: \"1025\" is not allowed: must be at most 1024, the model's n_positions"});

  json built = {{"model", "gpt2-from-scratch"}, {"batch", std::numeric_limits<double>::quiet_NaN()}};
  CHECK(lines(parse_request(built)) == Lines{"batch: \"NaN\" is not allowed: " + must});
  built["batch"] = -std::numeric_limits<double>::infinity();
  CHECK(lines(parse_request(built)) == Lines{"batch: \"-Infinity\" is not allowed: " + must});
}

TEST_CASE("words: nonsense is told apart from what is not supported yet", "[request]") {
  CHECK(lines_with(R"("precision": "fp16")") ==
        Lines{"precision: fp16 is replayed with Hugging Face's models only, not with gpt2-from-scratch"});
  CHECK(lines_with(R"("precision": "amp-bf6")") ==
        Lines{"precision: \"amp-bf6\" is not allowed: must be one of fp32, bf16, amp-bf16, amp-fp16 or fp16; did you mean amp-bf16?"});
  CHECK(lines_with(R"("precision": 16)") ==
        Lines{"precision: \"16\" is not allowed: must be one of fp32, bf16, amp-bf16, amp-fp16 or fp16"});
  CHECK(
      lines_with(R"("optimizer": "muno")") ==
      Lines{"optimizer: \"muno\" is not allowed: must be one of adamw, adamw-fused, adamw-for-loop, sgd, sgd-momentum, adam, adam-amsgrad, "
            "sgd-momentum-fused, adagrad, rmsprop, adafactor, adafactor-foreach, adafactor-transformers, none, adamw-8bit, "
            "adamw-8bit-paged, muon or lion; did you mean muon?"});
  CHECK(lines_with(R"("checkpointing": "selective")").empty());
  CHECK(lines_of(R"({"model": "gpt2", "checkpointing": "selective", "trainable": "last:1"})") ==
        Lines{"checkpointing: \"selective\" is not allowed: is not replayed where parameters are frozen: must be none, full or "
              "full-reentrant"});
  CHECK(lines_with(R"("checkpointing": "selective", "parallel": {"strategy": "fsdp", "gpus": 8})").size() == 1);
  CHECK(lines_with(R"("loss": "mse")") == Lines{"loss: \"mse\" is not allowed: must be one of default, fused-linear or chunked"});
  CHECK(lines_with(R"("loss": "chunked")") ==
        Lines{"loss: \"chunked\" is not allowed: is replayed with Hugging Face's models only, not with gpt2-from-scratch"});
  CHECK(lines_with(R"("lora": 8)") == Lines{"lora: \"8\" is not allowed: must be an object"});
  CHECK(lines_with(R"("lora": {"rank": 8})") ==
        Lines{"lora.targets: must be \"all-linear\" or a list of the model's linear layers, such as [\"q_proj\", \"v_proj\"]"});
  CHECK(lines_with(R"("lora": {"rank": 0, "targets": [], "base": "nf4"})") ==
        Lines{"lora.rank: \"0\" is not allowed: must be a whole number from 1 to 4096",
              "lora.targets: must be \"all-linear\" or a list of the model's linear layers, such as [\"q_proj\", \"v_proj\"]"});
  CHECK(parsed(R"({"model": "gpt2", "lora": {"rank": 8, "targets": "all-linear"}})").lora->targets == Lines{"c_attn", "c_proj", "c_fc"});
  CHECK(lines_with(R"("lora": {"rank": 8, "targets": ["c_attn"], "base": "nf3"})") ==
        Lines{"lora.base: \"nf3\" is not allowed: must be null or nf4"});
  CHECK(lines_with(R"("trainable": "last:0")") ==
        Lines{"trainable: \"last:0\" is not allowed: must be all, all-but-embeddings or last:N, with N from 1 to the model's 12 blocks"});
  CHECK(lines_with(R"("trainable": "last:2", "dropout": 0.1, "script": {"data": "once"})") ==
        Lines{"script: is replayed with Hugging Face's models only, not with gpt2-from-scratch (all but warmup_matmul)",
              "trainable: is replayed with Hugging Face's models only, not with gpt2-from-scratch",
              "dropout: is replayed with Hugging Face's models only, not with gpt2-from-scratch"});
  CHECK(lines_with(R"("dropout": -1)") == Lines{"dropout: \"-1\" is not allowed: must be a probability below 1"});
  CHECK(lines_with(R"("parallel": 8)") == Lines{"parallel: \"8\" is not allowed: must be an object"});
  CHECK(lines_with(R"("parallel": {"strategy": "ddp"})") == Lines{"parallel.gpus: is missing; it must be a whole number from 2 to 16384"});
  CHECK(lines_with(R"("parallel": {"strategy": "zero4", "gpus": 1, "pipeline": 2, "sequence": 0})") ==
        Lines{"parallel.strategy: \"zero4\" is not allowed: must be one of ddp, fsdp, zero1, zero2 or zero3; did you mean zero1?",
              "parallel.gpus: \"1\" is not allowed: must be a whole number from 2 to 16384",
              "parallel.pipeline: \"2\" is not supported yet: only 1 is supported so far",
              "parallel.sequence: \"0\" is not allowed: must be a whole number from 1 to 16384"});
  CHECK(lines_with(R"("parallel": {"strategy": "fsdp", "gpus": 8}, "clip_grad_norm": true, "optimizer": "adam")") ==
        Lines{"optimizer: \"adam\" is not allowed: must be adamw, adamw-fused, adamw-for-loop, sgd or sgd-momentum with parallel.strategy "
              "fsdp",
              "clip_grad_norm: \"true\" is not allowed: must be false with parallel.strategy fsdp"});
  CHECK(lines_with(R"("parallel": {"strategy": "zero2", "gpus": 8}, "precision": "amp-fp16")") ==
        Lines{"precision: \"amp-fp16\" is not allowed: must be fp32, bf16, fp16 or amp-bf16 (FSDP2 has no gradient scaler of its own) with "
              "parallel.strategy zero2"});
  CHECK(lines_with(R"("parallel": {"strategy": "zero1", "gpus": 8}, "clip_grad_norm": true, "optimizer": "lion")") ==
        Lines{"optimizer: \"lion\" is not allowed: must be adamw, adamw-fused, adamw-for-loop, sgd or sgd-momentum with parallel.strategy "
              "zero1"});
  CHECK(lines_with(R"("parallel": {"strategy": "fsdp", "gpus": 8, "tensor": 5}, "optimizer": "sgd")") ==
        Lines{"parallel.strategy: \"fsdp\" is not allowed: must be ddp, which has nothing left to do, with parallel.tensor",
              "parallel.tensor: \"5\" is not allowed: must be 1 or parallel.gpus: matrices are shared by all ranks or by none",
              "model: \"gpt2-from-scratch\" is not allowed: must be of type llama, mistral or qwen3 with parallel.tensor",
              "model.tie_word_embeddings: \"true\" is not allowed: must be false with parallel.tensor",
              "parallel.tensor: \"5\" is not allowed: must divide the model's heads, key heads, MLP width and vocabulary",
              "optimizer: \"sgd\" is not allowed: must be adamw with parallel.tensor"});
  CHECK(lines_with(R"("parallel": {"strategy": "ddp", "gpus": 2}, "engine": "formula")") ==
        Lines{"parallel: is replayed with engine torch only"});
  CHECK(lines_with(R"("torch": "2.9")") == Lines{"torch: \"2.9\" is not supported yet: only 2.6 is supported so far"});
  CHECK(lines_with(R"("torch": 2.6)") == Lines{"torch: \"2.6\" is not allowed: must be a version in quotes, such as \"2.6\""});
  CHECK(lines_with(R"("engine": "jax")") == Lines{"engine: \"jax\" is not allowed: must be one of torch, formula, llm.c or mlx"});
  CHECK(lines_with(R"("script": {"outputs": "loss", "use_cache": 1})") ==
        Lines{"script.outputs: \"loss\" is not allowed: must be one of keep, loss-only or loss-detached; did you mean loss-only?",
              "script.use_cache: \"1\" is not allowed: must be true or false"});
  CHECK(lines_with(R"("script": 8)") == Lines{"script: \"8\" is not allowed: must be an object"});
  CHECK(lines_with(R"("allocator": {"max_split_size_mib": 128, "roundup_power2_divisions": -1})") ==
        Lines{"allocator.roundup_power2_divisions: \"-1\" is not allowed: must be a whole number from 0 to 64"});
  CHECK(lines_with(R"("allocator": {"max_split_size_mib": 20, "roundup_power2_divisions": 3, "garbage_collection_threshold": 1})") ==
        Lines{"allocator.max_split_size_mib: \"20\" is not allowed: must be null or more than 20",
              "allocator.roundup_power2_divisions: \"3\" is not allowed: must be 0 or a power of two, at most 64",
              "allocator.garbage_collection_threshold: \"1\" is not allowed: must be a number from 0 to below 1"});
}

TEST_CASE("attention that PyTorch refuses", "[request]") {
  const auto with = [](const std::string& attention, const std::string& precision, int head_size, const char* capability,
                       const std::string& more = "") {
    return lines_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_head": 2, "n_embd": )" + std::to_string(2 * head_size) +
                    R"(}, "attention": ")" + attention + R"(", "precision": ")" + precision +
                    R"(", "device": {"name": "card", "total_mib": 40000, "sm_count": 80, "compute_capability": ")" + capability + "\"}" +
                    more + "}");
  };
  const auto refused = [](const std::string& word, const std::string& why) {
    return Lines{"attention: \"" + word + "\" is not allowed: " + why};
  };
  const std::string flash = "sdpa-flash";
  CHECK(with(flash, "fp32", 64, "8.6") == refused(flash, "needs precision bf16, amp-bf16 or amp-fp16; PyTorch has no fp32 kernel for it"));
  CHECK(with(flash, "amp-fp16", 64, "7.5") == refused(flash, "needs a card of compute capability 8.0 to 9.0; card has 7.5"));
  CHECK(with(flash, "bf16", 64, "12.0") == refused(flash, "needs a card of compute capability 8.0 to 9.0; card has 12.0"));
  CHECK(with(flash, "bf16", 257, "8.0") == refused(flash, "needs heads (n_embd / n_head) of at most 256; the model's are 257"));
  CHECK(with(flash, "bf16", 200, "8.6") ==
        refused(flash,
                "needs heads (n_embd / n_head) of at most 192, or of 225 to 256, to train on compute capability 8.6; the model's are 200"));
  for (const char* capability : {"8.0", "8.6", "8.9", "9.0"}) {
    for (const int size : {1, 31, 192, 225, 256}) CHECK(with(flash, "amp-fp16", size, capability) == Lines{});
  }
  CHECK(with(flash, "bf16", 200, "9.0") == Lines{});

  const std::string efficient = "sdpa-efficient";
  const auto heads = [](const char* n, const char* are) {
    return "needs heads (n_embd / n_head) of a multiple of " + std::string(n) + " with this precision and card; the model's are " + are;
  };
  CHECK(with(efficient, "fp32", 5, "8.6") == refused(efficient, heads("4", "5")));
  CHECK(with(efficient, "amp-fp16", 12, "7.5") == refused(efficient, heads("8", "12")));
  CHECK(with(efficient, "fp32", 5, "7.5") == Lines{});
  CHECK(with(efficient, "amp-fp16", 5, "6.1") == Lines{});
  CHECK(with(efficient, "fp32", 1028, "8.6") == Lines{});
  CHECK(with(efficient, "fp32", 64, "10.0") == refused(efficient, "needs a card of compute capability 5.0 to 9.0; card has 10.0"));
  CHECK(with(efficient, "bf16", 64, "7.5") ==
        refused(efficient, "needs precision fp32 or amp-fp16, or a card of compute capability 8.0 to 9.0; card has 7.5"));

  const std::string checkpoint = R"(, "checkpointing": "full", "seq_len": )";
  const std::string reason = " attention, which saves other tensors";
  CHECK(with("sdpa-math", "fp32", 64, "8.6", checkpoint + "32") ==
        refused("sdpa-math",
                "must be sdpa or eager with checkpointing full: a checkpointed block runs again outside of the script's "
                "sdpa_kernel, where PyTorch picks memory-efficient" +
                    reason));
  CHECK(with("sdpa-math", "fp32", 5, "8.6", checkpoint + "32") == Lines{});
  // A selective one looks for the results of the operator that forward called, and finds none.
  CHECK(with(efficient, "bf16", 64, "8.6", R"(, "checkpointing": "selective", "seq_len": 32)") ==
        refused(efficient,
                "must be sdpa or eager with checkpointing selective: a checkpointed block runs again outside of the script's "
                "sdpa_kernel, where PyTorch picks flash" +
                    reason));
  CHECK(with(efficient, "bf16", 64, "8.6", checkpoint + "33") ==
        Lines{"seq_len: \"33\" is not allowed: must be a multiple of 32 with attention sdpa-efficient and checkpointing full: a "
              "checkpointed block runs again outside of the script's sdpa_kernel, where PyTorch picks flash" +
              reason});
  CHECK(with(efficient, "bf16", 64, "8.6", checkpoint + "64") == Lines{});
  CHECK(with(efficient, "fp32", 64, "8.6", checkpoint + "33") == Lines{});
  CHECK(with(flash, "bf16", 64, "8.6", checkpoint + "33") == Lines{});
  CHECK(with(flash, "fp32", 64, "8.6", R"(, "engine": "formula")") == Lines{});
}

TEST_CASE("the package flash-attn is refused where it has no kernel, or is not replayed", "[request]") {
  const auto refused = [](const std::string& request) {
    const ParsedRequest parsed = parse_request(request);
    return parsed.problems.empty() ? "" : to_line(parsed.problems.front());
  };
  const std::string run = R"({"attention": "flash-attention-2", "model": )";
  const std::string why = "attention: \"flash-attention-2\" is not allowed: ";
  CHECK(refused(run + R"("gpt2", "precision": "bf16"})").empty());
  CHECK(refused(run + R"("gpt2", "precision": "bf16", "script": {"attention_mask": "ones"}})").empty());
  CHECK(refused(run + R"("gpt2"})") == why + "needs precision bf16, fp16, amp-bf16 or amp-fp16");
  CHECK(refused(run + R"("gpt2-from-scratch", "precision": "bf16"})") ==
        why + "is replayed with Hugging Face's models only, not with gpt2-from-scratch");
  CHECK(refused(run + R"("falcon-7b", "precision": "bf16"})") ==
        why + "must be another for Falcon, whose own class for it is not replayed");
  CHECK(refused(run + R"("gpt2", "precision": "amp-fp16", "device": "t4"})") ==
        why + "needs a card of compute capability 8.0 or more; Tesla T4 has 7.5");
  CHECK(refused(run + R"("gpt2", "precision": "bf16", "script": {"attention_mask": "padded"}})") ==
        why + "is replayed without padding: script.attention_mask must be none or ones");
  CHECK(refused(run + R"("gpt2", "precision": "bf16", "checkpointing": "selective"})") ==
        why + "must be another with checkpointing selective");
  CHECK(refused(run + R"({"model_type": "gpt2", "n_embd": 640, "n_head": 4}, "precision": "bf16"})") ==
        why + "needs heads of a multiple of 8 up to 128, of 192 or of 256; the model's are 160");
}

TEST_CASE("unknown keys are named with the nearest", "[request]") {
  CHECK(lines_with(R"("seq-len": 8, "batch_size": 2, "allocator": {"expandable": true})") ==
        Lines{"allocator.expandable: is not a key; did you mean expandable_segments?", "seq-len: is not a key; did you mean seq_len?",
              "batch_size: is not a key; did you mean batch?"});
  CHECK(lines_with(R"("xyzzy": 1)") ==
        Lines{"xyzzy: is not a key; allowed are model, assume, batch, seq_len, precision, attention, optimizer, checkpointing, loss, "
              "loss_chunks, grad_accumulation, clip_grad_norm, zero_grad, lora, trainable, dropout, parallel, allocator, engine, torch, "
              "transformers, device, calibration, steps and script"});
}

TEST_CASE("models", "[request]") {
  const std::string presets =
      "gpt2-from-scratch, gpt2, llama-2-7b or qwen2.5-0.5b, or another of the " + std::to_string(model_presets().size());
  const std::string must = "must be a preset (" + presets + ") or an object";
  CHECK(lines_of("{}") == Lines{"model: is missing; it " + must});
  CHECK(lines_of(R"({"model": 5})") == Lines{"model: \"5\" is not allowed: " + must});
  CHECK(lines_of(R"({"model": "gpt2-from-scrath"})") ==
        Lines{"model: \"gpt2-from-scrath\" is not allowed: " + must + "; did you mean gpt2-from-scratch?"});
  CHECK(lines_of(R"({"model": "mpt-7b"})") == Lines{"model: \"mpt-7b\" is not supported yet: its family is not replayed yet; it " + must});
  const auto model = [](const std::string& keys) { return lines_of(R"({"model": {"model_type": "gpt2-from-scratch", )" + keys + "}}"); };
  CHECK(model(R"("n_head": 5)") == Lines{"model.n_head: \"5\" is not allowed: must divide n_embd (768)"});
  CHECK(model(R"("n_embd": 100)") == Lines{"model.n_head: \"12\" is not allowed: must divide n_embd (100)"});
  CHECK(model(R"("n_layer": 1000000000000)") ==
        Lines{"model.n_layer: \"1000000000000\" is not allowed: must be a whole number from 1 to 10000"});
  CHECK(model(R"("n_layers": 3)") == Lines{"model.n_layers: is not a key; did you mean n_layer?"});
  CHECK(model(R"("n_inner": 100, "resid_pdrop": 0.1, "tie_word_embeddings": false, "activation_function": "relu")") ==
        Lines{"model.resid_pdrop: \"0.1\" is not supported yet: only 0 is supported so far",
              "model.n_inner: \"100\" is not supported yet: only null and 4 * n_embd are supported so far",
              "model.tie_word_embeddings: \"false\" is not supported yet: only true is supported so far",
              "model.activation_function: \"relu\" is not supported yet: only gelu_new is supported so far"});
  CHECK(model(R"("architectures": ["GPT2LMHeadModel"], "n_ctx": 1024, "n_inner": null, "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new", "attn_pdrop": 0.0, "transformers_version": "4.0", "eos_token_id": 50256)") == Lines{});
  for (const ModelPreset& preset : model_presets()) {
    const ModelConfig& m = preset.config;
    if (m.model_type != "gpt2-from-scratch") continue;  // hf_models_test.cpp
    const auto C = static_cast<std::uint64_t>(m.n_embd);
    const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    CHECK(preset.parameters == (count(m.vocab_size) + count(m.n_positions) + 2) * C + count(m.n_layer) * (12 * C * C + 13 * C));
  }
}

TEST_CASE("devices", "[request]") {
  const auto device = [](const std::string& text) { return lines_with("\"device\": " + text); };
  CHECK(parsed(R"({"model": "gpt2-from-scratch", "device": "a100-80gb"})").device.preset == "a100-sxm4-80gb");
  CHECK(parsed(R"({"model": "gpt2-from-scratch", "device": "h100"})").device.free_mib == 80566);
  CHECK(device("\"rtx4090\"") == Lines{"device: \"rtx4090\" is not allowed: must be a preset (a40, rtx-4090, a100-80gb, h100, ...) or "
                                       "an object with total_mib; did you mean rtx-4090?"});
  CHECK(device("\"mi300x\"") == Lines{"device: \"mi300x\" is not supported yet: engine torch replays CUDA kernels, and AMD Instinct "
                                      "MI300X has no CUDA compute capability; give the card as an object, or choose another"});
  CHECK(device("\"gb200\"") == Lines{"device: \"gb200\" is not supported yet: engine torch replays CUDA kernels, and NVIDIA GB200 (one "
                                     "GPU) has no known number of multiprocessors; give the card as an object, or choose another"});
  CHECK(device(R"("tpu-v4", "engine": "formula")") == Lines{"device: \"tpu-v4\" is not supported yet: the catalogue has no memory "
                                                            "figure of Google TPU v4 (one chip); give it as an object"});
  CHECK(device("{}") ==
        Lines{"device.total_mib: is missing; it must be a whole number from 1 to 1073741824",
              "device.compute_capability: is missing; it must be a string such as \"8.6\", from \"5.0\" to \"12.9\" (PyTorch chooses its "
              "kernels by it)",
              "device.sm_count: is missing; it must be the card's number of multiprocessors, from 1 to 1024 (PyTorch chooses its kernels "
              "by it)"});
  CHECK(device(R"({"total_mib": 100, "free_mib": 200, "compute_capability": 8.6, "sm_count": 84})") ==
        Lines{"device.free_mib: \"200\" is not allowed: must be at most total_mib (100)",
              "device.compute_capability: \"8.6\" is not allowed: must be a string such as \"8.6\", from \"5.0\" to \"12.9\""});
  CHECK(device(R"({"total_mib": 400, "compute_capability": "8.6", "sm_count": 84})") ==
        Lines{"device.free_mib: is missing, and total_mib less 500 MiB for the CUDA context leaves nothing"});
  CHECK(device(R"({"name": "a\u001bb", "total_mib": 4000, "sm_count": 8, "compute_capability": "9.0"})") ==
        Lines{R"(device.name: "a\u001bb" is not allowed: must be a string of 1 to 200 bytes of UTF-8 without control characters)"});
  for (const char* bad : {"8", "8.", ".6", "8.66", "4.9", "13.0", "08.6", "8,6", "a.b", "1.2.3", ""}) {
    CHECK(device(std::string(R"({"total_mib": 4000, "sm_count": 8, "compute_capability": ")") + bad + "\"}").size() == 1);
  }
  const Device derived =
      parsed(R"({"model": "gpt2-from-scratch", "device": {"total_mib": 24000, "compute_capability": "8.9", "sm_count": 10}})").device;
  CHECK(derived.free_mib == 23500);
  CHECK(derived.free_assumed);
  CHECK_FALSE(derived.total_assumed);

  for (const DevicePreset& preset : device_presets()) {
    INFO(preset.id);
    CHECK(preset.device.free_mib <= preset.device.total_mib);
    CHECK(preset.missing.empty() == (preset.device.compute_capability > 0 && preset.device.sm_count > 0 && preset.device.total_mib > 0));
    if (preset.vendor == "NVIDIA") CHECK(preset.device.free_mib > 0);
    if (preset.id == "m2-8gb") CHECK(preset.budgets == std::vector<Bytes>{4'000'000'000, 8'000'000'000});
    if (preset.id == "a10") CHECK(preset.device.total_mib == 23028 * 985 / 1000);  // no CUDA total known: driver's less 1.5 %
    if (preset.id == "a10") CHECK(preset.device.total_assumed);
    if (preset.id == "l4") CHECK(preset.device.free_mib == 22692 - 500);
    if (preset.id == "l4") CHECK(preset.device.free_assumed);
  }
}

TEST_CASE("products beyond the limits", "[request]") {
  CHECK(lines_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_positions": 1048576}, "seq_len": 1048576, "batch": 1048576})") ==
        Lines{"batch: \"1048576\" is not allowed: must be at most 52 with this model and seq_len: a step's tensors must stay below 2^60 "
              "bytes"});
  CHECK(lines_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_positions": 1024, "n_embd": 1048576, "n_head": 1048576,
                    "n_layer": 10000}})") == Lines{"model: is too large: a step's tensors must stay below 2^60 bytes"});
  CHECK(lines_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 10000}, "grad_accumulation": 1024, "steps": 64})") ==
        Lines{"grad_accumulation: \"1024\" is not allowed: n_layer * grad_accumulation must be at most 16384"});
  Config config;
  config.batch = config.seq_len = config.model.vocab_size = config.model.n_embd = config.model.n_layer = config.model.n_head =
      config.model.head_dim = config.model.n_inner = std::numeric_limits<std::int64_t>::max();
  CHECK(bytes_bound(config) == std::numeric_limits<std::uint64_t>::max());
  config.batch = std::numeric_limits<std::int64_t>::min();
  CHECK(bytes_bound(config) > 0);
  CHECK(bytes_bound(parsed(R"({"model": "gpt2-from-scratch", "batch": 20})")) < Bytes{1} << 44);
}

TEST_CASE("every problem is found", "[request]") {
  CHECK(lines_of(R"({"batch": 0, "model": {"model_type": "gpt2-from-scratch", "n_layer": 0, "n_head": -1}, "precison": "fp32",
                    "device": {"name": "", "total_mib": "x", "sm_count": 1e9}, "steps": 0.5})")
            .size() == 9);
}

TEST_CASE("hostile text is answered in words", "[request][hostile]") {
  CHECK(lines_of("") == Lines{"request: is empty; it must be a JSON object with at least \"model\""});
  CHECK(lines_of(" \n") == lines_of(""));
  CHECK(lines_of("[1]") == Lines{"request: \"[1]\" is not allowed: must be a JSON object"});
  CHECK(lines_of("null") == Lines{"request: \"null\" is not allowed: must be a JSON object"});
  for (const char* cut : {"{", "{\"model\"", "{\"model\": ", "{\"model\": \"gpt2", "{\"model\": \"gpt2\"", "{\"a\": [1, 2", "tru"}) {
    INFO(cut);
    CHECK(lines_of(cut) == Lines{"request: is not valid JSON: it ends too early"});
  }
  CHECK(lines_of("{\"model\": nope}") == Lines{"request: is not valid JSON, line 1, column 12, at \"{\"model\": no\""});
  CHECK(lines_of("{}\n{}") == Lines{"request: is not valid JSON, line 2, column 1, at \"{\""});
  CHECK(lines_of("{\"batch\": NaN}") == Lines{"request: is not valid JSON, line 1, column 11, at \"{\"batch\": N\""});
  CHECK(lines_of("{\"batch\": " + std::string(400, '9') + "}") ==
        Lines{"request: has a number that no double can hold, line 1, column 410, at \"99999999999999999999\""});
  CHECK(lines_of(std::string(100000, '[')) == Lines{"request: nests more than 32 deep"});
  CHECK(lines_of(std::string(100000, '[') + std::string(100000, ']')) == Lines{"request: nests more than 32 deep"});
  std::string nested = "1";
  for (int i = 0; i < 10000; ++i) nested = "{\"model\":" + nested + "}";
  CHECK(lines_of(nested) == Lines{"request: nests more than 32 deep"});
  CHECK(lines_with("\"batch\": " + std::string(31, '[') + std::string(31, ']')).size() == 1);
  json deep;
  for (int i = 0; i < 40; ++i) deep = json::array({deep});
  CHECK(lines(parse_request(deep)) == Lines{"request: nests more than 32 deep"});
  CHECK(lines_of(std::string(1 << 21, ' ')) == Lines{"request: has 2097152 bytes; at most 1048576 are allowed"});

  const auto long_model = lines_of("{\"model\": \"" + std::string(1000000, 'x') + "\"}");
  REQUIRE(long_model.size() == 1);
  CHECK(long_model[0].substr(0, 79) == "model: \"" + std::string(60, 'x') + "…\" is not");
  CHECK(long_model[0].size() < 300);
  CHECK(lines_with("\"" + std::string(1000000, 'k') + "\": 1")[0].size() < 400);

  CHECK(lines_of("{\"model\": \"\xC3\x28\"}") == Lines{"request: is not valid UTF-8 at byte 11"});
  CHECK(lines_of("{\"model\": \"\xED\xA0\x80\"}") == Lines{"request: is not valid UTF-8 at byte 11"});
  CHECK(lines_of("{\"model\": \"\xF4\x90\x80\x80\"}") == Lines{"request: is not valid UTF-8 at byte 11"});
  CHECK(lines_of(R"({"model": "\ud800"})").size() == 1);
  CHECK(lines_of(R"({"model": "\udc00\ud800"})").size() == 1);
  CHECK(lines_of(std::string("{\"model\": \"a\0b\"}", 16)).size() == 1);
  CHECK(lines_with(R"("loss": "\u001b[31m\u009b\u0000\n")") ==
        Lines{"loss: \"\\u001b[31m\\u009b\\u0000\\u000a\" is not allowed: must be one of default, fused-linear or chunked"});
  CHECK(lines(parse_request(json{{"model", "gpt2-from-scratch"}, {"loss", "\xFF"}})) ==
        Lines{"loss: \"\xEF\xBF\xBD\" is not allowed: must be one of default, fused-linear or chunked"});

  CHECK(lines_with(R"("batch": 1, "batch": 2)") == Lines{"batch: is given twice"});
  CHECK(lines_with(R"("script": {"warmup_matmul": 1, "warmup_matmul": 1}, "batch": 0)") ==
        Lines{"script.warmup_matmul: is given twice", "batch: \"0\" is not allowed: must be a whole number from 1 to 1048576"});
}
