#include "data/files/kept_texts.h"

#include <span>
#include <utility>

#include "base/files/release_pages.h"
#include "base/numeric.h"
#include "data/files/scratch_file.h"

namespace hone::data {

KeptTexts::KeptTexts(std::size_t most_memory) : most_memory_(most_memory) {}
KeptTexts::~KeptTexts() = default;
KeptTexts::KeptTexts(KeptTexts&&) noexcept = default;
KeptTexts& KeptTexts::operator=(KeptTexts&&) noexcept = default;

KeptTexts::Place KeptTexts::add(std::string_view text) {
  const Place out = {.begin = size_, .size = base::narrow<std::uint32_t>(text.size())};
  buffer_ += text;
  size_ += text.size();
  if (buffer_.size() > most_memory_) flush();
  return out;
}

void KeptTexts::flush() {
  if (file_ == nullptr) file_ = std::make_unique<ScratchFile>();
  file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

std::string KeptTexts::at(const Place& place) {
  if (file_ == nullptr) return buffer_.substr(place.begin, place.size);
  if (!mapped_) {
    flush();
    buffer_.shrink_to_fit();
    mapped_ = file_->map();
  }
  const std::span<const std::byte> bytes = mapped_->bytes().subspan(place.begin, place.size);
  std::string out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  base::release_pages(bytes);
  return out;
}

}  // namespace hone::data
