#include "dtune/cluster/step_checkpoint.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/text.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = ".step-";

}  // namespace

fs::path step_checkpoint(const fs::path& checkpoint, int step) {
  return checkpoint.string() + fmt::format("{}{}", kStep, step);
}

int step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const size_t at = name.rfind(kStep);
  if (at == std::string::npos) return 0;
  return parse_number<int>(name.substr(at + kStep.size())).value_or(0);
}

bool keep_step(const fs::path& checkpoint, int step) {
  const fs::path kept = step_checkpoint(checkpoint, step);
  const fs::path fresh = fmt::format("{}.new-{}", kept.string(), getpid());
  std::error_code error;
  fs::remove(fresh, error);
  fs::create_hard_link(checkpoint, fresh, error);
  if (error) return false;
  fs::rename(fresh, kept, error);
  std::error_code ignored;
  fs::remove(fresh, ignored);  // both names were the same file already
  return !error;
}

}  // namespace dtune
