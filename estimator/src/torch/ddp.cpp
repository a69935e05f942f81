#include "torch/ddp.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "torch/ops.h"

namespace whatfits::torch {

namespace {

constexpr Bytes kFirstBucket = MiB;             // dist._DEFAULT_FIRST_BUCKET_BYTES
constexpr Bytes kBucket = Bytes{25} * MiB;      // bucket_cap_mb
constexpr Bytes kBroadcast = Bytes{250} * MiB;  // broadcast_bucket_size
constexpr std::size_t kInFlight = 2;            // broadcast_coalesced: max_in_flight
constexpr Bytes kAll = std::numeric_limits<Bytes>::max();

/// First to last, whatever a standard library does with a vector.
void drop(std::vector<Tensor>& tensors) {
  for (Tensor& t : tensors) t.reset();
  tensors.clear();
}

/// `bytes` in elements of this type.
Tensor flat(Torch& torch, OpKind op, Bytes bytes, DType dtype) {
  return torch.empty(op, {Dim{static_cast<std::int64_t>(bytes / size_of(dtype))}}, dtype);
}

/// By their first item.
template <typename Buckets>
void in_order(Buckets& buckets) {
  const auto by_first = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::make_heap(buckets.begin(), buckets.end(), by_first);
  std::sort_heap(buckets.begin(), buckets.end(), by_first);
}

}  // namespace

void DistributedDataParallel::wrap(const std::vector<Tensor>& trainable) {
  std::vector<Item> states;
  const auto collect = [&](Category category, std::vector<Item>& items) {
    for (StorageId id = 0; id < torch_.recorder.program.storages.size(); ++id) {
      if (torch_.recorder.storage(id).category == category) items.push_back(item_of(id));
    }
  };
  collect(Category::parameters, states);
  collect(Category::buffers, buffers_);
  states.insert(states.end(), buffers_.begin(), buffers_.end());

  verify_parameters(trainable);
  broadcast(states);  // rank 0's parameters and buffers
  // Until the order of gradients is known there is one bucket for each type, so that nothing is reduced too early.
  std::vector<Item> items;
  for (const Tensor& p : trainable) items.push_back(item_of(p->storage->id));
  std::vector<Bucket> buckets = assign(items, kAll, kAll);
  std::reverse(buckets.begin(), buckets.end());
  make_buckets(buckets);
  if (zero_) make_partition(trainable);
}

/// _partition_parameters: the largest first, each to the rank that has the least so far. Parameters stay where they are, and each is
/// broadcast as it is after the step: state is all that is saved. The rank with the most elements is the one replayed.
void DistributedDataParallel::make_partition(const std::vector<Tensor>& trainable) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < trainable.size(); ++i) {
    const auto larger = [&](std::size_t a, std::size_t b) { return trainable[a].elements() > trainable[b].elements(); };
    order.insert(std::upper_bound(order.begin(), order.end(), i, larger), i);
  }
  std::vector<std::int64_t> loads(static_cast<std::size_t>(gpus_));
  std::vector<std::size_t> ranks;
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    ranks.push_back(static_cast<std::size_t>(least - loads.begin()));
    *least += trainable[i].elements();
  }
  const auto worst = static_cast<std::size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
  torch_.recorder.program.rank = static_cast<std::int64_t>(worst);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (ranks[i] == worst) partition_.push_back(trainable[order[i]]);
  }
}

DistributedDataParallel::Item DistributedDataParallel::item_of(StorageId storage) const {
  const StorageInfo& info = torch_.recorder.storage(storage);
  return {info.bytes, torch_.recorder.program.layout_of(info.tensor).dtype};
}

/// compute_bucket_assignment_by_size: a bucket for each type is filled until it holds its limit or more.
std::vector<DistributedDataParallel::Bucket> DistributedDataParallel::assign(const std::vector<Item>& items, Bytes first_limit,
                                                                             Bytes limit) {
  struct Open {
    Bucket bucket;
    bool first = true;
  };
  std::array<Open, 8> open{};  // by type
  std::vector<Bucket> full;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Open& now = open[static_cast<std::size_t>(items[i].dtype)];
    if (now.bucket.items == 0) now.bucket = {.dtype = items[i].dtype, .first = i};
    ++now.bucket.items;
    now.bucket.bytes += items[i].bytes;
    if (now.bucket.bytes < (now.first ? first_limit : limit)) continue;
    full.push_back(now.bucket);
    now = {.bucket = {}, .first = false};
  }
  std::vector<Bucket> rest;
  for (const Open& now : open) {
    if (now.bucket.items > 0) rest.push_back(now.bucket);
  }
  // PyTorch appends these in the order of a hash table; of one type there is but one.
  in_order(rest);
  full.insert(full.end(), rest.begin(), rest.end());
  return full;
}

/// _verify_param_shape_across_processes: how many parameters each rank has, then rank 0's sizes and strides, in int64.
void DistributedDataParallel::verify_parameters(const std::vector<Tensor>& trainable) const {
  const Tensor count = torch_.empty(OpKind::copy, {Dim{1}}, DType::int64);
  count.named("number of parameters");
  std::vector<Tensor> counts;
  for (std::int64_t rank = 0; rank < gpus_; ++rank) {
    counts.push_back(torch_.empty(OpKind::copy, {Dim{1}}, DType::int64));
    counts.back().named("number of parameters of a rank");
  }
  std::int64_t numbers = 0;
  for (const Tensor& p : trainable) numbers += 2 * p.rank();
  torch_.empty(OpKind::copy, {Dim{numbers}}, DType::int64).named("sizes and strides of the parameters");
  drop(counts);
}

/// broadcast_coalesced: flattened in pieces, two under way at a time. A piece of one tensor is sent as it is.
void DistributedDataParallel::broadcast(const std::vector<Item>& items) const {
  std::vector<Bucket> buckets = assign(items, kBroadcast, kBroadcast);
  in_order(buckets);
  std::vector<Tensor> under_way;
  std::size_t finished = 0;
  for (const Bucket& bucket : buckets) {
    if (under_way.size() - finished >= kInFlight) under_way[finished++].reset();
    under_way.emplace_back();
    if (bucket.items == 1) continue;
    under_way.back() = flat(torch_, OpKind::cat, bucket.bytes, bucket.dtype);
    under_way.back().named("parameters and buffers, flattened to be broadcast");
  }
  drop(under_way);
}

void DistributedDataParallel::make_buckets(const std::vector<Bucket>& buckets) {
  drop(buckets_);
  for (const Bucket& bucket : buckets) {
    buckets_.push_back(flat(torch_, OpKind::copy, bucket.bytes, bucket.dtype));
    buckets_.back().named("DDP bucket " + std::to_string(buckets_.size() - 1), Category::gradients);
  }
}

void DistributedDataParallel::rebuild_buckets() {
  const std::vector<Bucket> buckets = assign(ready_, kFirstBucket, kBucket);
  {  // sync_bucket_indices: every bucket's parameters and how many there are, from rank 0, in int32
    const auto integers = [&](std::size_t n, const char* label) {
      Tensor t = flat(torch_, OpKind::copy, 4 * static_cast<Bytes>(n), DType::float32);  // of int32 there is no name here
      t.named(label);
      return t;
    };
    const Tensor indices = integers(ready_.size() + 1, "order of the gradients, from rank 0");
    const Tensor sizes = integers(buckets.size(), "sizes of the buckets, from rank 0");
  }
  make_buckets(buckets);
  rebuilt_ = true;
  ready_.clear();
}

void DistributedDataParallel::pre_forward() {
  if (!rebuilt_ && !ready_.empty()) rebuild_buckets();
  if (!buffers_.empty()) broadcast(buffers_);
}

void DistributedDataParallel::gradient_accumulated(const Tensor& parameter) {
  // The gradient is copied into its bucket, and out of it again when all have been reduced: both are there by then.
  if (!rebuilt_) ready_.push_back(item_of(parameter->storage->id));
}

}  // namespace whatfits::torch
