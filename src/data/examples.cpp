#include "data/examples.h"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/release_pages.h"
#include "data/example_source.h"
#include "data/example_writer.h"

namespace hone::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// That every example lies within the bytes, one after another.
bool in_order(std::span<const ExampleEntry> entries, std::uint64_t bytes) {
  std::int64_t begin = 0;
  for (const ExampleEntry& entry : entries) {
    if (entry.end < begin || entry.end % 4 != 0 || static_cast<std::uint64_t>(entry.end) > bytes)
      return false;
    begin = entry.end;
  }
  return static_cast<std::uint64_t>(begin) == bytes;
}

// The parts of a file that is as long as its footer says.
struct FileParts {
  TokenFooter footer;
  std::span<const std::byte> examples, entries;
  std::string_view key, facts;
};

std::optional<FileParts> parts_of(std::span<const std::byte> file) {
  FileParts out;
  const std::size_t least = kTokenMagic.size() + sizeof(TokenFooter);
  if (file.size() < least || text_of(file.first(kTokenMagic.size())) != kTokenMagic) return std::nullopt;
  std::memcpy(&out.footer, file.last(sizeof(TokenFooter)).data(), sizeof(TokenFooter));
  const TokenFooter& footer = out.footer;
  std::span<const std::byte> left = file.subspan(kTokenMagic.size(), file.size() - least);
  if (footer.bytes > left.size() || footer.examples > left.size() / sizeof(ExampleEntry)) return std::nullopt;
  const std::size_t padded = footer.bytes + padding(footer.bytes, 8);
  const std::size_t entries = footer.examples * sizeof(ExampleEntry);
  if (padded + entries + footer.key + footer.facts != left.size()) return std::nullopt;
  out.examples = left.first(footer.bytes);
  out.entries = left.subspan(padded, entries);
  out.key = text_of(left.subspan(padded + entries, footer.key));
  out.facts = text_of(left.last(footer.facts));
  return out;
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0;
  while (!bytes.empty()) {
    const std::span<const std::byte> window = bytes.first(std::min(bytes.size(), base::kReadWindow));
    crc = base::crc32c(window, crc);
    base::release_pages(window);
    bytes = bytes.subspan(window.size());
  }
  return crc;
}

}  // namespace

ExampleView view(const Example& example) {
  return {.row = example.row, .ids = example.ids, .supervised = example.supervised, .labels = example.labels};
}

Example copy_of(const ExampleView& example) {
  return {.row = example.row,
          .ids = {example.ids.begin(), example.ids.end()},
          .supervised = {example.supervised.begin(), example.supervised.end()},
          .labels = {example.labels.begin(), example.labels.end()}};
}

Examples::Examples(const std::vector<Example>& examples) {
  ExampleWriter writer({.most_memory = std::numeric_limits<std::size_t>::max()});
  for (const Example& example : examples) writer.add(view(example));
  *this = writer.finish();
}

Examples::Examples(std::shared_ptr<const Source> source) : size_(source->entries.size()) {
  base::require(size_ <= std::numeric_limits<std::uint32_t>::max(), "data::Examples",
                "less than 2^32 examples");
  parts_.push_back({.source = std::move(source), .order = {}, .first = 0});
}

Examples::Place Examples::place(std::size_t index) const {
  base::require(index < size_, "data::Examples", "an example that is there");
  auto part = parts_.rbegin();
  while (part->first > index) ++part;
  const std::size_t within = index - part->first;
  return {.source = part->source.get(), .index = part->order.empty() ? within : part->order[within]};
}

namespace {

std::span<const std::byte> bytes_of(std::span<const std::byte> all, std::span<const ExampleEntry> entries,
                                    std::size_t index) {
  const auto begin = static_cast<std::size_t>(index == 0 ? 0 : entries[index - 1].end);
  return all.subspan(begin, static_cast<std::size_t>(entries[index].end) - begin);
}

}  // namespace

ExampleView Examples::operator[](std::size_t index) const {
  const Place at = place(index);
  const std::span<const std::byte> bytes = bytes_of(at.source->bytes, at.source->entries, at.index);
  const ExampleEntry& entry = at.source->entries[at.index];
  const bool own_labels = entry.own_labels != 0;
  const std::size_t tokens = bytes.size() / token_bytes(own_labels), labels = own_labels ? tokens : 0;
  const auto* const ids = reinterpret_cast<const std::int32_t*>(bytes.data());
  return {.row = entry.row,
          .ids = {ids, tokens},
          .supervised = {reinterpret_cast<const std::uint8_t*>(ids + tokens + labels), tokens},
          .labels = {ids + tokens, labels}};
}

std::int64_t Examples::tokens(std::size_t index) const {
  const Place at = place(index);
  const bool own_labels = at.source->entries[at.index].own_labels != 0;
  return static_cast<std::int64_t>(bytes_of(at.source->bytes, at.source->entries, at.index).size() /
                                   token_bytes(own_labels));
}

std::int64_t Examples::scored(std::size_t index) const {
  const Place at = place(index);
  return at.source->entries[at.index].scored;
}

void Examples::for_each(const std::function<void(const ExampleView&)>& take) const {
  std::span<const std::byte> window;  // of one file, in its order
  for (std::size_t i = 0; i < size_; ++i) {
    const Place at = place(i);
    take((*this)[i]);
    if (!at.source->file) continue;
    const std::span<const std::byte> bytes = bytes_of(at.source->bytes, at.source->entries, at.index);
    const bool goes_on = !window.empty() && window.data() + window.size() == bytes.data();
    if (goes_on) window = {window.data(), window.size() + bytes.size()};
    if (goes_on && window.size() < base::kReadWindow) continue;
    base::release_pages(window);
    window = goes_on ? std::span<const std::byte>() : bytes;
  }
  base::release_pages(window);
}

void Examples::release(std::size_t index) const {
  const Place at = place(index);
  if (at.source->file) base::release_pages(bytes_of(at.source->bytes, at.source->entries, at.index));
}

void Examples::reorder(const std::vector<std::int64_t>& order) {
  base::require(parts_.size() <= 1 && order.size() == size_, "data::Examples::reorder",
                "one source, all examples");
  if (order.empty()) return;
  std::vector<std::uint32_t>& places = parts_.front().order;
  std::vector<std::uint32_t> now;
  now.reserve(size_);
  for (const std::int64_t from : order) {
    const auto at = static_cast<std::size_t>(from);
    now.push_back(places.empty() ? static_cast<std::uint32_t>(at) : places.at(at));
  }
  places = std::move(now);
}

void Examples::append(Examples more) {
  for (Part& part : more.parts_) {
    part.first += size_;
    parts_.push_back(std::move(part));
  }
  size_ += more.size_;
}

std::optional<TokenFile> TokenFile::open(const base::fs::path& path, const std::string& key) {
  auto source = std::make_shared<Examples::Source>();
  source->file = base::MappedFile::open(path);
  const std::span<const std::byte> file = source->file->bytes();
  const std::optional<FileParts> parts = parts_of(file);
  if (!parts || parts->key != key) return std::nullopt;
  if (checksum(file.first(file.size() - sizeof(std::uint32_t))) != parts->footer.crc) return std::nullopt;
  source->bytes = parts->examples;
  source->entries = {reinterpret_cast<const ExampleEntry*>(parts->entries.data()), parts->footer.examples};
  if (!in_order(source->entries, parts->footer.bytes)) return std::nullopt;
  TokenFile out;
  out.facts = parts->facts;
  out.examples = Examples(std::shared_ptr<const Examples::Source>(std::move(source)));
  return out;
}

}  // namespace hone::data
