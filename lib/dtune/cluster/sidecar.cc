#include "dtune/cluster/sidecar.h"

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune {
namespace {

constexpr size_t kHeader = 8;  // digits of a length, hexadecimal
// Of the reports in the file: what is stored outlives versions of the wire.
constexpr int kStoredVersion = 1;
constexpr size_t kMaxSidecarBytes = 16 * wire::kMaxFrameBytes;

}  // namespace

std::filesystem::path sidecar_path(const std::filesystem::path& checkpoint) {
  std::filesystem::path path = checkpoint;
  path += ".reports";
  return path;
}

void write_sidecar(const std::filesystem::path& checkpoint,
                   const std::string& study_id,
                   std::span<const control::Report> reports) {
  std::string text = study_id + "\n";
  for (const control::Report& report : reports) {
    const std::string bytes = encode(report, kStoredVersion);
    std::string digits(kHeader, '0');
    size_t size = bytes.size();
    for (size_t i = kHeader; i-- > 0; size /= 16) {
      digits[i] = "0123456789abcdef"[size % 16];
    }
    text += digits + bytes;
  }
  write_file_atomic(sidecar_path(checkpoint), text, /*durable=*/false);
}

std::vector<control::Report> read_sidecar(
    const std::filesystem::path& checkpoint, const std::string& study_id,
    TrialId trial) try {
  std::vector<control::Report> reports;
  const std::filesystem::path path = sidecar_path(checkpoint);
  if (!std::filesystem::exists(path)) return reports;
  const std::string text = read_file(path, kMaxSidecarBytes);
  std::string_view rest = text;
  if (!rest.starts_with(study_id + "\n")) return reports;
  rest.remove_prefix(study_id.size() + 1);
  while (rest.size() > kHeader) {
    const size_t size =
        std::stoul(std::string(rest.substr(0, kHeader)), nullptr, 16);
    if (size > rest.size() - kHeader) return {};
    const control::Message message =
        decode(rest.substr(kHeader, size), kStoredVersion);
    const auto* report = std::get_if<control::Report>(&message);
    if (report == nullptr || report->trial != trial) return {};
    reports.push_back(*report);
    rest.remove_prefix(kHeader + size);
  }
  return reports;
} catch (const std::exception&) {  // damaged: as if it were not there
  return {};
}

}  // namespace dtune
