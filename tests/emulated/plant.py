#!/usr/bin/env python3
"""Writes hone's own kernels with one fault each, as C++ that test_emulated runs: each fault has to be found.

usage: tests/emulated/plant.py KERNELS_FOLDER > planted.cpp
       tests/emulated/plant.py KERNELS_FOLDER --counted > counted.cpp: the kernels as they are, once more, whose loads and stores are counted

A fault is a text that stands once in a kernel's file, and what stands there instead.
"""
import pathlib
import re
import sys

UNALIGNED = "columns by fours of rows that are not aligned"
PLANTED = [
    # file, operator, what is wrong, the text, the fault
    ("dropout", "dropout", "a round of Philox less", "round < 10", "round < 9"),
    ("dropout", "dropout", "a bit of the row's number lost", "row >> 32", "row >> 33"),
    ("dropout", "dropout", "threads beyond the rows go on", "if (at >= d.tokens * blocks) return;", ""),
    ("dropout", "dropout", "a feature past the end", "if (first + i >= d.features) return;", "if (first + i > d.features) return;"),
    ("dropout", "dropout", UNALIGNED, "by_fours(x.out, x.features) && by_fours(x.x, x.features)", "x.features % kFour == 0"),
    ("dropout", "dropout_backward_add", "the sign of what is added", "sum[j] + kept", "sum[j] - kept"),
    ("rms_norm", "rms_norm", "no barrier before the sums are read", "  __syncthreads();\n", ""),
    ("rms_norm", "rms_norm", "a barrier that one warp alone reaches", "  __syncthreads();\n", "  if (threadIdx.x < kWarp) __syncthreads();\n"),
    ("rms_norm", "rms_norm", "a column past the end", "i < width; i += kThreads", "i <= width; i += kThreads"),
    ("rms_norm", "rms_norm", "the sum of a warp left out", "i < kWarps; ++i", "i < kWarps - 1; ++i"),
    ("rms_norm", "rms_norm", "a sum beside shared memory", "part[threadIdx.x / kWarp] = x", "part[threadIdx.x / kWarp + 1] = x"),
    ("rms_norm", "rms_norm", UNALIGNED, "by_fours(n.out, n.width) && by_fours(n.x, n.width) && by_fours(n.weight);\n  return with_type(n.out",
     "n.width % kFour == 0;\n  return with_type(n.out"),
    ("rms_norm", "rms_norm_backward", "two sums in one place, no barrier between", "block_sum(product, products)", "block_sum(product, squares)"),
    ("rms_norm", "rms_norm_backward", "the sign of the mean", "d[j] * w[j] - x[j]", "d[j] * w[j] + x[j]"),
    ("rms_norm", "rms_norm_backward", "rows of dy one number too far apart", "token * n.dy.stride", "token * (n.dy.stride + 1)"),
    ("rms_norm", "rms_norm_backward_cast", "the cast of another row", "token * n.cast.stride", "(token + 1) * n.cast.stride"),
    ("rms_norm", "rms_norm_backward_cast", "the cast of what comes, without what was there", "store<kCount>(cast + i, sum)", "store<kCount>(cast + i, d)"),
    ("norm_rope", "norm_rope", "the sign of the sine", "- high * to_float(sin[i])", "+ high * to_float(sin[i])"),
    ("norm_rope", "norm_rope", "lanes that leave before a shuffle", "  const float inverse = weight == nullptr ? 1 : inverse_rms(x, a.dim",
     "  if (place.lane >= a.dim) return;\n  const float inverse = weight == nullptr ? 1 : inverse_rms(x, a.dim"),
    ("norm_rope", "norm_rope", "a head past the end", "return at < tokens * heads;", "return at <= tokens * heads;"),
    ("norm_rope", "norm_rope", "a column past the end", "i < dim; i += kWarp) sum +=", "i <= dim; i += kWarp) sum +="),
    ("norm_rope", "norm_rope_backward", "a lane's sum for that of the head", "mean = warp_sum(product)", "mean = product"),
    ("norm_rope", "norm_rope_backward", "columns after the rotation left out", "i < n.dim; i += kWarp)\n    d[i]",
     "i < n.rotated; i += kWarp)\n    d[i]"),
    ("head", "take_tile", "no barrier before the peaks are read", "parts[threadIdx.x / kWarp] = peak;\n  __syncthreads();",
     "parts[threadIdx.x / kWarp] = peak;"),
    ("head", "take_tile", "no barrier before the sums are read", "parts[threadIdx.x / kWarp] = sums;\n  __syncthreads();",
     "parts[threadIdx.x / kWarp] = sums;"),
    ("head", "take_tile", "a target of another tile", "if (target >= 0 && target < s.width)", "if (target >= 0)"),
    ("head", "take_tile", "the sums so far at the peak before", "s.sum[token] * factor + sums.one", "s.sum[token] + sums.one"),
    ("head", "take_row", "the first logit of each read left out",
     "for (int j = 0; j < kCount; ++j) peak =", "for (int j = 1; j < kCount; ++j) peak ="),
    ("head", "tile_backward", "the sign", "s.upstream[token] / -s.temperature", "s.upstream[token] / s.temperature"),
    ("head", "tile_backward", "the target's column by one", "column + j == target ? expm1f", "column + j == target + 1 ? expm1f"),
    ("head", "tile_backward", "a thread beyond the rows goes on", "if (at >= s.tokens * of_row)", "if (at > s.tokens * of_row)"),
    ("optimizer", "adamw", "the sign of the step", "s.decay), change)", "s.decay), -change)"),
    ("optimizer", "adamw", "the share of the nearer end", "__fadd_rn(1, -weight)", "weight"),
    ("optimizer", "adamw", "a thread beyond the end goes on", "if (first >= s.size) return;\n  float p", "float p"),
    ("optimizer", "adamw", UNALIGNED, "by_fours(s.p, s.size) &&", "s.size % kFour == 0 || by_fours(s.p, s.size) &&"),
    ("optimizer", "block_sums_of_squares", "no barrier before the numbers are read", "    __syncthreads();\n    for", "    for"),
    ("optimizer", "block_sums_of_squares", "no barrier before the next numbers", "    __syncthreads();  // before", "    // before"),
    ("optimizer", "block_sums_of_squares", "no barrier before the lanes are folded", "lanes[thread] = sum;\n  __syncthreads();",
     "lanes[thread] = sum;"),
    ("optimizer", "block_sums_of_squares", "a number past the end", "i < count; i += kThreads", "i <= count; i += kThreads"),
    ("optimizer", "scale", "the first of each read left out", "for (int j = 0; j < kCount; ++j) x[j] *=", "for (int j = 1; j < kCount; ++j) x[j] *="),
    ("optimizer", "scale", UNALIGNED, "with_count(by_fours(s.x, s.size)", "with_count(s.size % kFour == 0"),
    ("quantized", "dequantize", "no barrier before the table is read", "  __syncthreads();\n", ""),
    ("quantized", "dequantize", "the halves of a byte", "j % 2 == 0 ?", "j % 2 != 0 ?"),
    ("quantized", "dequantize", "the halves of a byte, one by one", "first % 2 == 0 ?", "first % 2 != 0 ?"),
    ("quantized", "dequantize", "the first matrix's offset for all", "d.offsets[block / d.blocks_of_matrix]", "d.offsets[0]"),
    ("quantized", "dequantize", "a scale for each block where many share one", "d.scales[block / d.nested_block]", "d.scales[block]"),
    ("quantized", "dequantize", "a thread beyond the end goes on", "if (first >= d.rows * d.in) return;\n  const auto* const codes",
     "const auto* const codes"),
    ("quantized", "dequantize", "eight numbers of rows that are not whole eights",
     "const bool eights = d.in % kEight == 0 && (!is_narrow || d.block % kEight == 0) &&\n                      d.out.stride % kEight == 0 &&",
     "const bool eights ="),
    ("quantized", "dequantize", "the scale of a column", "d.scales[first / d.in]", "d.scales[first % d.in]"),
    ("panels", "dequantize", "the minimum left out", ", -line.minimum)", ", 0)"),
    ("panels", "dequantize", "the rows of the first panel", "first / d.in * kLanes + lane", "lane"),
    ("panels", "dequantize", "the scale of the first row for a panel", "return {half_at(d.halves, block + lane)};", "return {half_at(d.halves, block)};"),
    ("panels", "dequantize", "upper bits of the first number of a word", "static_cast<int>(first % in_word) * width", "0"),
    ("panels", "dequantize", "factors without a sign", "static_cast<std::int8_t>(d.factors[group + lane])", "d.factors[group + lane]"),
    ("panels", "dequantize", "the exponent of a half", "exponent - 25)", "exponent - 24)"),
    ("scattered_rows", "add_rows", "the last row of each sum left out", "i < a.starts[group + 1]", "i < a.starts[group + 1] - 1"),
    ("scattered_rows", "add_rows", "a row of each sum too many", "i < a.starts[group + 1]", "i <= a.starts[group + 1]"),
    ("scattered_rows", "add_rows", "what was there before is lost", "load<kCount>(sum, out);", "for (int j = 0; j < kCount; ++j) sum[j] = 0;"),
    ("scattered_rows", "add_rows", "a thread beyond the columns goes on", "if (column >= a.width) return;", ""),
    ("scattered_rows", "add_rows", "the first part of a wide row for all", "(part * kThreads + threadIdx.x)", "(part * 0 + threadIdx.x)"),
    ("scattered_rows", "add_rows", UNALIGNED, "by_fours(a.out, a.width) && by_fours(a.d, a.width)", "a.width % kFour == 0"),
    ("blocks", "copy_blocks", "a block of threads too late", "blockIdx.x) >= c.blocks", "blockIdx.x) > c.blocks"),
    ("blocks", "copy_blocks", "the last block left out", "i + 1 < c.count", "i + 2 < c.count"),
    ("blocks", "copy_blocks", "a thread beyond the rows goes on", "if (row >= b.rows) return;", "if (row > b.rows) return;"),
    ("blocks", "copy_blocks", "what was there before is lost", "x[j] += sum[j]", "x[j] += 0"),
    ("blocks", "copy_blocks", "the row of x by the stride of out", "row * b.x.stride + column", "row * b.out.stride + column"),
    ("blocks", "copy_blocks", "columns of x for its rows", "b.transposed ? from", "!b.transposed ? from"),
    ("blocks", "copy_blocks", UNALIGNED, "by_fours(b.out, b.columns) && by_fours(b.x, b.columns)", "b.columns % kFour == 0"),
    ("join", "join_attention", "the other part's share", "1 / (1 + expf(apart))", "1 / (1 + expf(-apart))"),
    ("join", "join_attention", "no keys count as all", "part == INFINITY ? -INFINITY : part - own", "part - own"),
    ("join", "join_attention", "the row of a part for the own", "*at(a.own_lse, row, head)", "*at(a.own_lse, token, head)"),
    ("join", "join_attention", "the log-sum-exp's sign", "apart <= 0 ? own +", "apart <= 0 ? own -"),
    ("join", "join_attention", "a thread beyond the rows goes on", "if (place >= a.tokens * a.heads * of_head) return;", ""),
    ("join", "join_attention", UNALIGNED, "by_fours(a.out, a.dim) && by_fours(a.own, a.dim) && by_fours(a.part, a.dim)", "a.dim % kFour == 0"),
    ("codes", "adamw_codes", "no barrier before the largest is read", "parts[threadIdx.x / kWarp] = x;\n  __syncthreads();",
     "parts[threadIdx.x / kWarp] = x;"),
    ("codes", "adamw_codes", "the largest of a warp left out", "i < kWarps; ++i", "i < kWarps - 1; ++i"),
    ("codes", "adamw_codes", "both moments in one place", "shared<1, float, kWarps>()", "shared<0, float, kWarps>()"),
    ("codes", "adamw_codes", "a number past the end", "const bool inside = i < s.size", "const bool inside = i <= s.size"),
    ("codes", "adamw_codes", "the map of the other moment", "s.second.values[s.second.codes[i]]", "s.first.values[s.second.codes[i]]"),
    ("codes", "adamw_codes", "codes of a half of the places", "65535), 0.5F)", "32767), 0.5F)"),
    ("codes", "adamw_codes", "codes of the other moment's scale", "code_of(v, second, s.second.places)", "code_of(v, first, s.second.places)"),
    ("optimizer", "lion", "the sign of the step", "fmaf(r.minus_learning_rate, sign", "fmaf(-r.minus_learning_rate, sign"),
    ("optimizer", "lion", "the moment's share of the gradient in the step", "fmaf(r.one_minus_beta1, g[j]", "fmaf(r.one_minus_beta2, g[j]"),
    ("optimizer", "lion", "the moment stays as it was", "  store<kCount>(s.p + first, p);\n  store<kCount>(s.m + first, m);\n}",
     "  store<kCount>(s.p + first, p);\n}"),
    ("optimizer", "lion", "a thread beyond the end goes on", "if (first >= s.size) return;\n  const LionRates", "const LionRates"),
    ("optimizer", "lion", UNALIGNED, "by_fours(s.g, s.size) && by_fours(s.m, s.size) && by_fours(s.p", "s.size % kFour == 0 || by_fours(s.p"),
    ("codes", "lion_codes", "a number past the end", "if (place < s.size) {", "if (place <= s.size) {"),
    ("codes", "lion_codes", "twice the scale", "float largest = block_largest(fabsf(m)", "float largest = 2 * block_largest(fabsf(m)"),
    ("codes", "lion_codes", "the scale of the first block for all", "s.moment.scales[block])", "s.moment.scales[0])"),
    ("codes", "lion_codes", "a step without the gradient", "__fmul_rn(g, r.one_minus_beta1)", "0"),
    ("codes", "lion_codes", "the first thread's number alone has a code", "if (place < s.size) s.moment.codes", "if (threadIdx.x == 0) s.moment.codes"),
    ("scattered_rows", "gather_rows", "the row of the next token", "g.ids[token]", "g.ids[(token + 1) % g.tokens]"),
    ("scattered_rows", "gather_rows", "rows of the table as far apart as those of the result", "* g.table.stride", "* g.out.stride"),
    ("scattered_rows", "gather_rows", "a thread beyond the rows goes on", "if (at >= g.tokens * of_row) return;", ""),
    ("scattered_rows", "gather_rows", UNALIGNED, "by_fours(g.out, g.width) && by_fours(g.table, g.width)", "g.width % kFour == 0"),
    ("swiglu", "swiglu", "the column of a thread", "at % of_row * kCount}", "at % of_row}"),
    ("swiglu", "swiglu", "a thread beyond the rows goes on", "if (at >= tokens * of_row)", "if (at > tokens * of_row)"),
    ("swiglu", "swiglu", UNALIGNED, "by_fours(s.out, s.width) && by_fours(s.gate, s.width) && by_fours(s.up, s.width)", "s.width % kFour == 0"),
    ("swiglu", "swiglu_backward", "the sign of the slope", "(1 - p))", "(1 + p))"),
    ("swiglu", "swiglu_backward", "a number read after it was written", "up[j] = d[j] * g * p", "up[j] = d[j] * gate[j] * p"),
    ("sampler", "sample_tokens", "a round of Philox less", "round < 10", "round < 9"),
    ("sampler", "sample_tokens", "the words of the number", "words.at[0]} << 21U", "words.at[1]} << 21U"),
    ("sampler", "sample_tokens", "no barrier before bins are filled", "= bins.counts[bin] = 0;\n    __syncthreads();", "= bins.counts[bin] = 0;"),
    ("sampler", "sample_tokens", "no barrier before bins are read", "    __syncthreads();\n    if (thread < kWarp) {", "    if (thread < kWarp) {"),
    ("sampler", "sample_tokens", "no barrier before the next border", "  __syncthreads();  // before the next border takes the bins\n", ""),
    ("sampler", "sample_tokens", "no barrier before masses are read",
     "masses[block] = mass;\n  }\n  __syncthreads();", "masses[block] = mass;\n  }"),
    ("sampler", "sample_tokens", "no barrier before sums are read",
     "warps[thread / kWarp] = sum;\n  __syncthreads();", "warps[thread / kWarp] = sum;"),
    ("sampler", "sample_tokens", "the higher ids of equals", "{~static_cast<std::uint32_t>(id), score", "{static_cast<std::uint32_t>(id), score"),
    ("sampler", "sample_tokens", "a token less of top-k", "static_cast<double>(rule.top_k);", "static_cast<double>(rule.top_k - 1);"),
    ("sampler", "sample_tokens", "top-p of a sum of one", "search == kTopP ? needed * all : needed", "needed"),
    ("sampler", "sample_tokens", "top-p of what top-k has removed too",
     "kept_weight(row, best, cut, id)};", "kept_weight(row, best, {-INFINITY, row.count}, id)};"),
    ("sampler", "sample_tokens", "the sign of min-p", "static_cast<double>(best) + distance", "static_cast<double>(best) - distance"),
    ("sampler", "sample_tokens", "keys of scores below zero", "bits >> 31U != 0 ? ~bits : bits | 0x80000000U", "bits | 0x80000000U"),
    ("sampler", "sample_tokens", "the sign of a penalized score", "x < 0 ? __fmul_rn(x, penalty)", "x > 0 ? __fmul_rn(x, penalty)"),
    ("sampler", "sample_tokens", "the bit of a seen token", "seen[id / kWord] >> (id % kWord)", "seen[id / kWord] >> ((id + 1) % kWord)"),
    ("sampler", "sample_tokens", "drawn tokens are not seen", "|= 1U << (found.id % kWord)", "|= 0U"),
    ("sampler", "sample_tokens", "stop tokens too early", "s.drawn[at] < rule.min_new_tokens ? rule.stops : 0", "0"),
    ("sampler", "sample_tokens", "the stop tokens of another row", "s.stop_ids[rule.first_stop + i] == found.id", "s.stop_ids[i] == found.id"),
    ("sampler", "sample_tokens", "a token past the end", "if (id < row.count) sum", "if (id <= row.count) sum"),
    ("sampler", "sample_tokens", "the mass of a warp left out", "i < kThreads / kWarp; ++i) total", "i < kThreads / kWarp - 1; ++i) total"),
    ("sampler", "sample_tokens", "the sign of the entropy", "facts.log_sum - facts.mean", "facts.log_sum + facts.mean"),
    ("sampler", "sample_tokens", "a token more than the length", "drawn >= rule.max_new_tokens", "drawn > rule.max_new_tokens"),
    ("sampler", "sample_tokens", "rows that have ended go on", "if (s.states[at] != DrawState::kGoesOn) return;", ""),
    ("norm_rope", "step_heads", "queries with the norm of keys", "is_query ? s.q_weight.data : s.k_weight.data", "s.k_weight.data"),
    ("norm_rope", "step_heads", "keys with the norm of queries", "is_query ? s.q_weight.data : s.k_weight.data", "s.q_weight.data"),
    ("norm_rope", "step_heads", "values among the keys", "is_value ? s.values : s.keys", "s.keys"),
    ("norm_rope", "step_heads", "the first token of a page for all", "* kPageTokens + s.places[place.token])", "* kPageTokens)"),
    ("norm_rope", "step_heads", "the first token's page for all", "s.pages[place.token]", "s.pages[0]"),
    ("norm_rope", "step_heads", "the first head of keys for all", "(place.head - s.heads) % s.kv_heads;", "0;"),
    ("norm_rope", "step_heads", "values left out", "s.heads + 2 * s.kv_heads)) return;", "s.heads + s.kv_heads)) return;"),
    ("norm_rope", "step_heads", "values that turn", "if (is_value) {", "if (false) {"),
    ("norm_rope", "step_heads", "a column past the end", "i < s.dim; i += kWarp) to[i]", "i <= s.dim; i += kWarp) to[i]"),
    ("pages", "attend_pages", "no barrier before keys are read", "    __syncthreads();  // keys, and at first queries\n", ""),
    ("pages", "attend_pages", "no barrier before scores are read", "    __syncthreads();  // scores\n", ""),
    ("pages", "attend_pages", "no barrier before values are read", "    __syncthreads();  // values and weights\n", ""),
    ("pages", "attend_pages", "no barrier before the next keys", "    __syncthreads();  // before the next keys take their place\n", ""),
    ("pages", "attend_pages", "tokens past the end", "if (token < count && query < queries)", "if (query < queries)"),
    ("pages", "attend_pages", "the first page for all", "a.pages[part.first_page + first / kPage]", "a.pages[part.first_page]"),
    ("pages", "attend_pages", "the first tokens of a page for all", "kPage + first % kPage;", "kPage;"),
    ("pages", "attend_pages", "the sums so far at the peak before", "sum.weights * factor + sum_of", "sum.weights + sum_of"),
    ("pages", "attend_pages", "the values so far at the peak before", "sum.values[c][j] *= factor", "sum.values[c][j] *= 1"),
    ("pages", "attend_pages", "scores without their scale", "score = a.scale * dot", "score = dot"),
    ("pages", "attend_pages", "the first head of keys for all queries", "return kv_head * group + i % group", "return i % group"),
    ("pages", "attend_pages", "the first row of a part for all", "(a.heads / a.kv_heads)].query;", "(a.heads / a.kv_heads) * 0].query;"),
    ("pages", "attend_pages", "the wide parts again", "(T(), a, a.wide, a.narrow, stream)", "(T(), a, 0, a.narrow, stream)"),
    ("pages", "attend_pages", "a column past the end", "if (column >= a.dim) continue;\n    float x", "float x"),
    ("pages", "attend_pages", "the log-sum-exp of a part", "sum.peak + logf(sum.weights)", "sum.peak"),
    ("pages", "attend_pages", "no wait for the copy of keys", "async_wait<0>();", "async_wait<1>();"),
    ("pages", "attend_pages", "no wait for the copy of values", "async_wait<1>();", "async_wait<2>();"),
    ("pages", "attend_pages", "no barrier before keys are multiplied",
     "    __syncthreads();  // keys are there, and values and weights of the tile before are done with\n", ""),
    ("pages", "attend_pages", "no barrier between scores and weights", "    __syncthreads();  // scores are there, and keys are done with\n", ""),
    ("pages", "attend_pages", "no barrier before values are multiplied", "    __syncthreads();  // values and weights are there\n", ""),
    ("pages", "attend_pages", "no barrier after the last values", "  __syncthreads();  // the last factors are done with\n", ""),
    ("pages", "attend_pages", "no barrier before sums are divided", "  __syncthreads();  // sums of weights\n", ""),
    ("pages", "attend_pages", "values in the place of the next keys", "first, tokens_from<S>(part, first), block.values)",
     "first, tokens_from<S>(part, first), block.keys)"),
    ("pages", "attend_pages", "the same keys again", "part, kv_head, next, tokens_from<S>(part, next), block.keys)",
     "part, kv_head, first, tokens_from<S>(part, next), block.keys)"),
    ("pages", "attend_pages", "a matrix of keys with its halves exchanged", "lane % 16) * S::kRow + lane / 16;", "lane % 16) * S::kRow + 1 - lane / 16;"),
    ("pages", "attend_pages", "queries of other columns", "{words[lane % 4], words[4 + lane % 4]}", "{words[4 + lane % 4], words[lane % 4]}"),
    ("pages", "attend_pages", "a matrix of values that is not turned", "load_transposed(v,", "load_matrices(v,"),
    ("pages", "attend_pages", "a matrix of values in another order", "(lane % 8 + lane / 16 * 8) * S::kRow + column / kPackNumbers + lane / 8 % 2",
     "(lane % 16) * S::kRow + column / kPackNumbers + lane / 16"),
    ("pages", "attend_pages", "the first part of a weight alone", "for (int part = 0; part < 2; ++part)", "for (int part = 0; part < 1; ++part)"),
    ("pages", "attend_pages", "tokens that a tile does not have", "token < count && pack < packs", "pack < packs"),
    ("pages", "attend_pages", "scores of tokens past the end", "row < count ? a.scale * sums[j]", "row >= 0 ? a.scale * sums[j]"),
    ("pages", "attend_pages", "products without their scale", "? a.scale * sums[j]", "? sums[j]"),
    ("pages", "attend_pages", "sums at the peak before", "*= block.factors[query + j % 2]", "*= 1"),
    ("pages", "attend_pages", "factors of other queries", "*= block.factors[query + j % 2]", "*= block.factors[query + 1 - j % 2]"),
    ("pages", "attend_pages", "weights at the peak before", "seen.weights * of_before", "seen.weights"),
    ("pages", "attend_pages", "a product's rows in the place of others", "sums[h][w][half * 2 + side]", "sums[h][w][(1 - half) * 2 + side]"),
    ("pages", "attend_pages", "a product's column past the end", "if (column < a.dim) to[column]", "to[column]"),
    ("pages", "attend_pages", "sums of queries that are not there", "      if (query >= queries) continue;\n      float* const to", "      float* const to"),
    ("pages", "attend_pages", "parts that weigh alike", "expf(a.partial_lse[i * a.heads + head] - peak)", "1.0F"),
    ("pages", "attend_pages", "a thread beyond the rows goes on", "if (place >= a.tokens * a.heads * of_head) return;", ""),
]
# A row of the operators' table whose kernel has another name, in all files or in one.
KERNELS = {("panels", "dequantize"): "dequantize_panels", "rms_norm_backward_cast": "rms_norm_backward",
           "block_sums_of_squares": "squares", "dropout_backward_add": "dropout", "take_tile": "softmax_tile",
           "take_row": "softmax_tile", "tile_backward": "softmax_backward"}
# Headers that every kernel's file shares; a fault's file gets its own copy of others.
SHARED = ("device.h", "entries.h", "kernels.h")
INCLUDE = re.compile(r'^#include "ops/backend/cuda/kernels/(\w+\.h)"\n', re.M)
NAMESPACE = "namespace hone::ops::cuda::kernels {"


def text_of(folder, name):
    """A kernel's file with its own headers in the place of their includes."""
    source = (folder / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
    return INCLUDE.sub(lambda found: found[0] if found[1] in SHARED else text_of(folder, found[1]), source)


def in_namespace(source, name):
    """That text without its includes, in a namespace of its own."""
    return re.sub(r"^#include .*\n", "", source.replace(NAMESPACE, f"{NAMESPACE[:-2]}::{name} {{"), flags=re.M)


def planted(folder, number):
    file, _, what, text, fault = PLANTED[number]
    source = text_of(folder, f"{file}.cu")
    if source.count(text) != 1:
        sys.exit(f"{folder / file}.cu has {source.count(text)} times what the fault '{what}' changes: {text!r}")
    return in_namespace(source.replace(text, fault), f"planted{number}")


# The kernels once more, each file in a namespace: at each load and store the compiler calls a function of machine/traffic.cpp.
def print_counted(folder):
    print('#include "emulated/machine/traffic.h"')
    texts = {file.stem: text_of(folder, file.name) for file in sorted(folder.glob("*.cu"))}
    table = texts.pop("table").split(NAMESPACE, 1)[1].split(f"}}  // {NAMESPACE[:-2]}", 1)[0]
    for name, text in texts.items():
        print(in_namespace(text, f"counted_{name}"))
    print("namespace hone::ops::cuda::kernels::counted {")
    for name, text in texts.items():
        for entry in re.findall(r"^int (\w+)\(const ", text, flags=re.M):
            print(f"using counted_{name}::{entry};")
    print(f"{table}}}\nnamespace hone::emulated {{\nconst Kernels& counted_kernels() {{\n"
          "  return ops::cuda::kernels::counted::all_kernels();\n}\n}")


def main():
    folder = pathlib.Path(sys.argv[1])
    includes = sorted({line for file in folder.glob("*.cu") for line in text_of(folder, file.name).splitlines()
                       if line.startswith("#include")}, key=lambda line: ("device.h" not in line, line))
    print("// Made by tests/emulated/plant.py.", '#include "emulated/machine/planted.h"', *includes, sep="\n")
    if "--counted" in sys.argv:
        return print_counted(folder)
    for number in range(len(PLANTED)):
        print(planted(folder, number))
    print("namespace hone::emulated {\n\nnamespace kernels = ops::cuda::kernels;\n")
    print("const std::vector<Planted>& planted() {\n  static const std::vector<Planted> all = {")
    for number, (file, op, what, _, _) in enumerate(PLANTED):
        kernel = KERNELS.get((file, op), KERNELS.get(op, op))
        print(f'      {{"{op}", "{what}", [](Kernels& table) {{ table.{kernel} = kernels::planted{number}::{kernel}; }}}},')
    print("  };\n  return all;\n}\n\n}  // namespace hone::emulated")


if __name__ == "__main__":
    main()
