#include "dtune/train/failure.h"

#include <string_view>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace dtune {
namespace {

// LibTorch has a type for CUDA's lack of memory only.
bool means_no_memory(const std::exception& error, std::string_view text) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  for (const std::string_view sign :
       {"out of memory", "can't allocate memory", "not enough memory"}) {
    if (text.find(sign) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::string first_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

TrialFailure translate_failure(const std::string& where,
                               const std::exception& error) {
  const std::string text = first_line(error);
  if (means_no_memory(error, text)) {
    return {Reason::out_of_memory,
            fmt::format("{}: there is not enough memory: {} (use a smaller "
                        "batch_size or model, or fewer slots)",
                        where, text)};
  }
  return {Reason::crashed, fmt::format("{}: LibTorch failed: {}", where, text)};
}

}  // namespace dtune
