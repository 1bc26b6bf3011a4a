#include "dtune/cluster/bounded_log.h"

#include <system_error>
#include <utility>

namespace dtune {

BoundedLog::BoundedLog(std::filesystem::path file, uint64_t most)
    : file_(std::move(file)), most_(most) {
  open();
}

void BoundedLog::open() {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file_, error);
  size_ = error ? 0 : size;
  stream_ = std::ofstream(file_, std::ios::app);
}

void BoundedLog::write(std::string_view line) {
  if (size_ > 0 && size_ + line.size() >= most_) {
    std::filesystem::path before = file_;
    before += ".1";
    std::error_code ignored;
    std::filesystem::rename(file_, before, ignored);
    open();
  }
  stream_ << line << '\n' << std::flush;
  size_ += line.size() + 1;
}

}  // namespace dtune
