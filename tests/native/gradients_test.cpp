// Every operator's backward against finite differences of its forward, in double.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <functional>

#include "support.h"
#include "torch/autograd.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"

using namespace whatfits;
using namespace whatfits::native;
using namespace whatfits::native::test;
using torch::Shape;
using torch::Tensor;
using torch::Torch;

namespace {

using Forward = std::function<Tensor(Torch&, const std::vector<Tensor>&)>;

/// forward(leaves), then gelu, whose slope varies: without it the gradient of a sum of softmax rows would be zero everywhere.
Program record_operator(const std::vector<Shape>& shapes, const Forward& forward) {
  Recorder recorder;
  recorder.label("");
  Program program;
  {
    Torch torch(recorder, {86, 84});
    std::vector<Tensor> leaves;
    for (const Shape& shape : shapes) {
      leaves.push_back(torch.empty(OpKind::copy, shape, DType::float32));
      leaves.back().named("leaf " + std::to_string(leaves.size() - 1), Category::parameters);
      leaves.back()->leaf_requires_grad = true;
      recorder.op({.kind = OpKind::randn, .scalar = 0.7}, {}, {leaves.back().id()});
    }
    recorder.end_setup();
    recorder.reading(Reading::before);
    const Tensor y = torch::gelu(forward(torch, leaves));
    y.named("result", Category::buffers);
    recorder.reading(Reading::after_forward);
    torch::backward(y);
    recorder.reading(Reading::after_backward);
    recorder.reading(Reading::end_of_step);
    recorder.end_first_step();
    program = recorder.program;
  }
  return in_double(std::move(program));
}

using Values = std::vector<std::vector<double>>;

struct Evaluation {
  double sum = 0;  ///< of the results
  Values leaves;
  Values gradients;  ///< by leaf
};

Evaluation evaluate(const Program& program, const Values* leaves) {
  const Config config = tiny(R"({"model": {"vocab_size": 7}})");
  Run run(config, program, {.poison = true});
  REQUIRE(run.executor.setup());
  Evaluation result;
  const auto tensors = run.executor.named(Category::parameters);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (leaves) set_values(tensors[i].view, (*leaves)[i]);
    result.leaves.push_back(values(tensors[i].view));
  }
  result.gradients.resize(tensors.size());
  run.executor.on_reading = [&](Reading reading) {
    if (reading == Reading::after_forward) {
      for (const double y : values(run.executor.named(Category::buffers).at(0).view)) result.sum += y;
    }
    if (reading != Reading::after_backward) return;
    for (const NamedTensor& g : run.executor.named(Category::gradients)) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (g.name == tensors[i].name) result.gradients[i] = values(g.view);
      }
    }
  };
  REQUIRE(run.executor.step());
  return result;
}

void check(const char* what, const std::vector<Shape>& shapes, const Forward& forward) {
  INFO(what);
  const Program program = record_operator(shapes, forward);
  const Evaluation at = evaluate(program, nullptr);
  constexpr double h = 1e-5;
  for (std::size_t leaf = 0; leaf < shapes.size(); ++leaf) {
    REQUIRE(at.gradients[leaf].size() == at.leaves[leaf].size());
    const std::size_t n = at.leaves[leaf].size();
    for (std::size_t i = 0; i < n; i += n > 12 ? n / 11 : 1) {
      INFO("leaf " << leaf << " element " << i);
      Values moved = at.leaves;
      moved[leaf][i] += h;
      const double up = evaluate(program, &moved).sum;
      moved[leaf][i] -= 2 * h;
      const double down = evaluate(program, &moved).sum;
      const double slope = (up - down) / (2 * h);
      CHECK(std::fabs(slope - at.gradients[leaf][i]) < 1e-8 * (1 + std::fabs(slope)) + 1e-9);
    }
  }
}

using Leaves = const std::vector<Tensor>&;
constexpr Dim d(std::int64_t n) { return {n}; }

}  // namespace

TEST_CASE("elementwise gradients", "[gradients]") {
  check("add", {{d(3), d(5)}, {d(5)}}, [](Torch&, Leaves x) { return torch::add(x[0], x[1]); });
  check("div", {{d(3), d(5)}}, [](Torch&, Leaves x) { return torch::div(x[0], 1.7); });
  check("mul", {{d(3), d(5)}}, [](Torch&, Leaves x) { return torch::mul(x[0], 1.7); });
  check("gelu", {{d(40)}}, [](Torch&, Leaves x) { return torch::gelu(x[0]); });
  check("masked_fill", {{d(2), d(4), d(4)}}, [](Torch& torch, Leaves x) {
    const Tensor zeros = torch::full(torch, {d(4), d(4)}, DType::float32, 0);
    return torch::masked_fill(x[0], torch::eq(zeros, 0), 0.3);
  });
  check("scale by a tensor", {{d(6)}},
        [](Torch& torch, Leaves x) { return torch::mul(x[0], torch::full(torch, {}, DType::float32, 2.5)); });
  check("used twice", {{d(6)}}, [](Torch&, Leaves x) { return torch::add(torch::add(x[0], x[0]), torch::gelu(x[0])); });
}

TEST_CASE("gradients over rows", "[gradients]") {
  check("softmax", {{d(3), d(7)}}, [](Torch&, Leaves x) { return torch::softmax(x[0]); });
  check("layer_norm", {{d(3), d(2), d(9)}, {d(9)}, {d(9)}}, [](Torch&, Leaves x) { return torch::layer_norm(x[0], x[1], x[2]); });
  check("cross_entropy", {{d(5), d(7)}}, [](Torch& torch, Leaves x) { return torch::cross_entropy(x[0], torch::randint(torch, {d(5)})); });
  check("embedding", {{d(7), d(4)}}, [](Torch& torch, Leaves x) { return torch::embedding(x[0], torch::randint(torch, {d(2), d(6)})); });
}

TEST_CASE("gradients of products", "[gradients]") {
  check("mm", {{d(3), d(4)}, {d(4), d(5)}}, [](Torch&, Leaves x) { return torch::mm(x[0], x[1]); });
  check("linear", {{d(2), d(3), d(4)}, {d(5), d(4)}, {d(5)}}, [](Torch&, Leaves x) { return torch::linear(x[0], x[1], x[2]); });
  check("linear without bias", {{d(2), d(3), d(4)}, {d(5), d(4)}}, [](Torch&, Leaves x) { return torch::linear(x[0], x[1], {}); });
  check("matmul", {{d(2), d(3), d(4), d(5)}, {d(2), d(3), d(4), d(5)}},
        [](Torch&, Leaves x) { return torch::matmul(x[0], torch::transpose(x[1], 2, 3)); });
  check("split, view, transpose", {{d(2), d(3), d(12)}}, [](Torch&, Leaves x) {
    auto parts = torch::split3(x[0], 2);
    const Shape heads{d(2), d(3), d(2), d(2)};
    const Tensor q = torch::transpose(torch::view(parts[0], heads), 1, 2);
    const Tensor k = torch::transpose(torch::view(parts[1], heads), 1, 2);
    return torch::contiguous(torch::transpose(torch::matmul(q, torch::transpose(k, 2, 3)), 1, 2));
  });
}

TEST_CASE("gradients of attention", "[gradients]") {
  const auto attention = [](torch::SdpaBackend backend) {
    return [backend](Torch&, Leaves x) { return torch::scaled_dot_product_attention(x[0], x[1], x[2], backend); };
  };
  const Shape heads{d(2), d(2), d(5), d(8)};
  const Shape odd{d(1), d(2), d(70), d(6)};
  check("math", {heads, heads, heads}, attention(torch::SdpaBackend::math));
  check("efficient", {heads, heads, heads}, attention(torch::SdpaBackend::efficient));
  check("flash", {heads, heads, heads}, attention(torch::SdpaBackend::flash));
  check("flash, padded", {odd, odd, odd}, attention(torch::SdpaBackend::flash));
}

TEST_CASE("gradients through a checkpoint", "[gradients]") {
  check("checkpoint", {{d(3), d(4)}, {d(5), d(4)}, {d(5)}}, [](Torch&, Leaves x) {
    return torch::checkpoint(x[0], [w = x[1], b = x[2]](const Tensor& in) { return torch::gelu(torch::linear(in, w, b)); });
  });
}
