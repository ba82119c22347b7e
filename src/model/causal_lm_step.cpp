// Generation: what a sequence keeps, one forward of new tokens after it, and their logits.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "base/step_progress.h"
#include "base/where.h"
#include "model/causal_lm.h"
#include "model/key_shape.h"
#include "model/layers/fused_layer.h"
#include "ops/attention.h"
#include "ops/fused_linear.h"
#include "ops/head/linear_logprob.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"
#include "ops/rms_norm.h"
#include "ops/sampling/key_pages.h"
#include "ops/sampling/page_step.h"

namespace hone::model {

bool KvCache::can_truncate(std::int64_t to) const {
  const std::int64_t own = to - (prefix ? prefix->length : 0);
  return std::all_of(layers.begin(), layers.end(),
                     [own](const LayerCache& layer) { return layer.can_truncate(own); });
}

std::int64_t KvCache::truncate(std::int64_t to) {
  base::require(to <= length, "KvCache::truncate", "at most its length");
  const std::int64_t before = prefix ? prefix->length : 0;
  base::require(to >= before, "KvCache::truncate", "at least its prefix");
  if (!can_truncate(to)) to = before;
  for (LayerCache& layer : layers) layer.truncate(to - before);
  if (pages) pages->truncate(std::min(to - before, pages->length()));
  length = to;
  return length;
}

void KvCache::forget() {
  layers.clear();
  pages.reset();
}

std::int64_t KvCache::bytes() const {
  std::int64_t out = pages ? pages->bytes() : 0;
  for (const LayerCache& layer : layers) out += layer.bytes();
  return out;
}

KvCache KvCache::clone() const {
  KvCache out{.layers = {}, .length = length, .prefix = prefix, .room = room};
  for (const LayerCache& layer : layers) out.layers.push_back(layer.clone());
  if (pages) out.pages = pages->fork();
  return out;
}

KvCache KvCache::after(std::shared_ptr<const KvCache> prefix) {
  base::require(prefix && prefix->length > 0, "KvCache::after", "a prefix with tokens");
  const std::int64_t length = prefix->length;
  return {.layers = {}, .length = length, .prefix = std::move(prefix), .room = 0};
}

ops::KeyShape key_shape(const ModelConfig& config, std::int64_t layer, at::ScalarType dtype) {
  const LayerAttention attention = config.attention_of(layer);
  return {.heads = config.num_attention_heads,
          .kv_heads = attention.kv_heads,
          .head_dim = attention.head_dim,
          .dtype = dtype,
          .sees_all = attention.window == 0 && config.attention_soft_cap == 0};
}

std::shared_ptr<ops::backend::KvPool> CausalLm::pool_of(std::int64_t layer) const {
  if (!ops::pools_keys(device())) return nullptr;
  pools_.resize(layers_.size());
  std::weak_ptr<ops::backend::KvPool>& known = pools_[static_cast<std::size_t>(layer)];
  std::shared_ptr<ops::backend::KvPool> pool = known.lock();
  if (pool) return pool;
  const ops::KeyShape shape = key_shape(config_, layer, dtypes_.linear);
  pool = ops::make_kv_pool(shape.kv_heads, shape.head_dim, shape.dtype, device());
  known = pool;
  return pool;
}

std::shared_ptr<ops::KeyPages> CausalLm::key_pages() const {
  if (std::shared_ptr<ops::KeyPages> known = key_pages_.lock()) return known;
  std::vector<std::optional<ops::KeyShape>> shapes(layers_.size());
  bool any = false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    if (config_.mixer(layer).key_columns(config_, layer) == 0) continue;
    const ops::KeyShape shape = key_shape(config_, layer, dtypes_.linear);
    if (!ops::attends_to_pages(shape, device())) continue;
    shapes[i] = shape;
    any = true;
  }
  if (!any) return nullptr;
  const auto made = std::make_shared<ops::KeyPages>(std::move(shapes), device());
  key_pages_ = made;
  return made;
}

ReservedKeys CausalLm::reserve_keys(std::int64_t tokens) const {
  ReservedKeys out;
  if (!ops::pools_keys(device())) return out;
  out.pages = key_pages();
  if (out.pages) out.pages->reserve(tokens);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    if (config_.mixer(i).key_columns(config_, i) == 0 || (out.pages && out.pages->has(i))) continue;
    out.rows.push_back(pool_of(i));
    ops::reserve(*out.rows.back(), tokens);
  }
  return out;
}

LayerCache CausalLm::new_cache(std::int64_t layer, std::int64_t room) const {
  LayerCache out;
  out.mixer = &config_.mixer(layer);
  const std::shared_ptr<ops::KeyPages> pages = key_pages();
  out.in_pages = pages && pages->has(layer);
  if (out.in_pages) return out;
  const bool has_keys = out.mixer->key_columns(config_, layer) > 0;
  out.mixer->open(out, {.config = config_,
                        .layer = layer,
                        .tokens = room,
                        .dtype = dtypes_.linear,
                        .device = device(),
                        .pool = has_keys ? pool_of(layer) : nullptr});
  return out;
}

struct CausalLm::NewRows {
  std::vector<std::int64_t> ids;              // none, where only the device has them
  std::vector<std::int64_t> positions, last;  // last: whose hidden state is wanted
  Segments segments;                          // one a sequence

  void add(std::int64_t size, std::int64_t position, std::int64_t wanted) {
    base::require(wanted > 0 && wanted <= size, "CausalLm::step", "as many rows as new tokens at most");
    const auto begin = static_cast<std::int64_t>(positions.size());
    for (std::int64_t j = 0; j < size; ++j) positions.push_back(position + j);
    segments.emplace_back(begin, begin + size);
    for (std::int64_t j = size - wanted; j < size; ++j) last.push_back(begin + j);
  }
};

at::Tensor CausalLm::step(const std::vector<std::vector<std::int64_t>>& ids, std::vector<KvCache*>& caches,
                          const ops::PassContext& pass, std::span<const std::int64_t> last_rows) const {
  base::require(ids.size() == caches.size() && !ids.empty(), "CausalLm::step", "one cache a sequence");
  base::require(last_rows.empty() || last_rows.size() == ids.size(), "CausalLm::step",
                "rows of each sequence");
  const at::NoGradGuard no_grad;
  NewRows rows;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    base::require(!ids[i].empty(), "CausalLm::step", "at least one new token a sequence");
    rows.ids.insert(rows.ids.end(), ids[i].begin(), ids[i].end());
    rows.add(static_cast<std::int64_t>(ids[i].size()), caches[i]->length,
             last_rows.empty() ? 1 : last_rows[i]);
  }
  return step_rows(embed(rows.ids, pass), rows, caches, pass);
}

bool CausalLm::takes_drawn_ids() const {
  if (per_layer_ || token_rows_.defined()) return false;
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i)
    if (!config_.mixer(i).attends()) return false;
  return true;
}

at::Tensor CausalLm::step_drawn(const at::Tensor& ids, std::vector<KvCache*>& caches,
                                const ops::PassContext& pass) const {
  base::require(takes_drawn_ids() && ids.dim() == 1 && !caches.empty() &&
                    ids.size(0) == static_cast<std::int64_t>(caches.size()) && ids.device() == device(),
                "CausalLm::step_drawn", "ids on the device, one a sequence, and a model that takes them");
  const at::NoGradGuard no_grad;
  if (has_listed_steps()) {
    list_step(caches);
    return listed_step(ids, pass);
  }
  NewRows rows;
  for (const KvCache* const one : caches) rows.add(1, one->length, 1);
  return step_rows(rows_of(ids.to(at::kLong), pass), rows, caches, pass);
}

// New caches get their layers, with room for the new tokens at least.
void CausalLm::begin_caches(std::span<KvCache* const> caches, const NewRows* rows) const {
  std::shared_ptr<ops::KeyPages> pages;  // held until a run of it is
  for (std::size_t i = 0; i < caches.size(); ++i) {
    if (caches[i] == nullptr || !caches[i]->layers.empty()) continue;
    KvCache& cache = *caches[i];
    const std::int64_t size = rows == nullptr ? 1 : rows->segments[i].end - rows->segments[i].begin;
    const std::int64_t room = cache.room > 0 ? std::max(cache.room, size) : size + 1;
    if (!pages && ops::pools_keys(device())) pages = key_pages();
    cache.pages = pages ? pages->take() : nullptr;
    for (std::size_t l = 0; l < layers_.size(); ++l)
      cache.layers.push_back(new_cache(static_cast<std::int64_t>(l), room));
  }
}

ops::PageStep& CausalLm::begin_pages(std::span<KvCache* const> caches, const NewRows* rows) const {
  thread_local std::vector<ops::PageRows> all;  // whose lists keep their memory
  all.resize(caches.size());
  for (std::size_t i = 0; i < caches.size(); ++i) {
    ops::PageRows& one = all[i];
    const auto place = static_cast<std::int64_t>(i);
    one.begin = rows == nullptr ? place : rows->segments[i].begin;
    one.end = rows == nullptr ? place + 1 : rows->segments[i].end;
    one.before.clear();
    one.own = nullptr;
    one.position = 0;
    if (caches[i] == nullptr) continue;
    one.own = caches[i]->pages.get();
    one.position = caches[i]->length;
    for (const KvCache* before = caches[i]->prefix.get(); before != nullptr; before = before->prefix.get())
      one.before.push_back(before->pages.get());
    std::reverse(one.before.begin(), one.before.end());
  }
  ops::PageStep& step = key_pages_.lock()->step();
  step.begin(all);
  return step;
}

bool CausalLm::has_listed_steps() const {
  if (!takes_drawn_ids() || config_.query_scale_beta != 0 || !ops::pools_keys(device())) return false;
  const std::shared_ptr<ops::KeyPages> pages = key_pages();
  if (!pages) return false;
  for (std::size_t l = 0; l < layers_.size(); ++l)
    if (!pages->has(static_cast<std::int64_t>(keys_of(l)))) return false;
  return true;
}

void CausalLm::list_step(std::span<KvCache* const> caches) const {
  begin_caches(caches, nullptr);
  begin_pages(caches, nullptr);
  for (KvCache* const one : caches)
    if (one != nullptr) one->length += 1;
}

std::vector<std::int64_t> CausalLm::listed_form() const {
  return key_pages_.lock()->step().form();
}

at::Tensor CausalLm::listed_step(const at::Tensor& ids, const ops::PassContext& pass) const {
  const at::NoGradGuard no_grad;
  ops::PageStep& step = key_pages_.lock()->step();
  at::Tensor x = into_layers(rows_of(ids.to(at::kLong), pass), pass);
  const RopeTables tables = rotations_.tables(config_, step.positions(), dtypes_.residual);
  LayerPass layer_pass{config_, tables, pass};
  layer_pass.pages = &step;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    base::enter_layer(static_cast<std::int64_t>(l));
    x = fused_layer_step(layers_[l], layer_pass, x, {}, {});
  }
  base::enter_layer(-1);
  return normed_last(x, pass);
}

at::Tensor CausalLm::step_rows(const at::Tensor& embedded, const NewRows& rows, std::vector<KvCache*>& caches,
                               const ops::PassContext& pass) const {
  const auto& [ids, positions, last, segments] = rows;
  at::Tensor x = into_layers(embedded, pass);
  begin_caches(caches, &rows);
  base::require(!config_.rope_long ||
                    *std::max_element(positions.begin(), positions.end()) < longest_generated(config_),
                "CausalLm::step", "sequences within the original length of longrope");
  const RopeTables tables = ropes(positions);
  LayerPass layer_pass{config_, tables, pass};
  if (caches.front()->pages) layer_pass.pages = &begin_pages(caches, &rows);
  if (per_layer_)
    layer_pass.per_layer = fused_per_layer_inputs(*per_layer_, {config_, dtypes_, ids, pass}, x, nullptr);
  std::vector<StepCache> tiles(caches.size());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    base::enter_layer(static_cast<std::int64_t>(l));
    const std::size_t from = keys_of(l);
    const bool in_pages = caches.front()->layers[from].in_pages;
    for (std::size_t i = 0; i < caches.size() && !in_pages; ++i) {
      tiles[i].own = &caches[i]->layers[from];
      tiles[i].before.clear();
      for (const KvCache* one = caches[i]->prefix.get(); one != nullptr; one = one->prefix.get())
        tiles[i].before.push_back(&one->layers[from]);
      std::reverse(tiles[i].before.begin(), tiles[i].before.end());
    }
    x = fused_layer_step(layers_[l], layer_pass, x, segments, tiles);
  }
  base::enter_layer(-1);
  if (x.size(0) != static_cast<std::int64_t>(last.size())) {
    x = x.index_select(0, ops::index_tensor(last, device()));
  }
  at::Tensor out = normed_last(x, pass);
  // Last of all: after an exception the caches are as long as before, so that what the layers have appended is dropped.
  for (std::size_t i = 0; i < caches.size(); ++i) caches[i]->length += segments[i].end - segments[i].begin;
  return out;
}

at::Tensor CausalLm::normed_last(const at::Tensor& x, const ops::PassContext& pass) const {
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(dtypes_.linear));
  ops::rms_norm_into(out, x, final_norm(pass), config_.rms_norm_eps);
  return out;
}

bool CausalLm::takes_other_adapters() const {
  const auto is_adapted_stack = [](const ops::Linear* one) { return one->stacked > 1 && one->lora; };
  const auto is_plain = [&](const DecoderLayer& layer) {
    const auto groups = layer.readers();
    return std::none_of(groups.begin(), groups.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(), is_adapted_stack);
    });
  };
  return !token_rows_.defined() && !trained_parts_.any() &&
         std::all_of(layers_.begin(), layers_.end(), is_plain);
}

at::Tensor CausalLm::logits(const at::Tensor& hidden, const ops::PassContext& pass) const {
  const at::NoGradGuard no_grad;
  const at::Tensor products = head_products(hidden, pass);
  ops::soft_cap_into(products, config_.logits_soft_cap);
  return products;
}

at::Tensor CausalLm::head_products(const at::Tensor& hidden, const ops::PassContext& pass) const {
  const at::ScalarType dtype = head().dtype();
  const at::Tensor read = hidden.to(dtype);
  if (pass.adapters_on && trained_parts_.head.defined()) return ops::head_logits(read, head(true));
  const ops::AdapterRows whole = {.begin = 0, .end = read.size(0), .sides = nullptr};
  const auto adapters = pass.adapter_rows.empty() ? std::span(&whole, 1) : pass.adapter_rows;
  const auto has_side = [&](const ops::AdapterRows& rows) {
    return ops::side_of(head_, rows.sides, pass) != nullptr;
  };
  at::Tensor out;
  if (std::all_of(adapters.begin(), adapters.end(), has_side)) {
    out = at::empty({read.size(0), head().out()}, read.options().dtype(at::kFloat));
  } else {
    const std::optional<ops::HeadRows> own = head_rows(pass.adapters_on);
    out = ops::head_logits(read, head(), own ? &*own : nullptr);
  }
  for (const ops::AdapterRows& rows : adapters) {
    if (!has_side(rows)) continue;
    const std::int64_t count = rows.end - rows.begin;
    const ops::AdapterRows here = {.begin = 0, .end = count, .sides = rows.sides};
    const ops::PassContext plain = {.adapter_rows = {&here, 1}};  // a sampler never drops
    const at::Tensor x = read.narrow(0, rows.begin, count);
    ops::linear_into(out.narrow(0, rows.begin, count), head_, x, ops::lora_a_forward(head_, x, plain), plain);
  }
  return out;
}

}  // namespace hone::model
