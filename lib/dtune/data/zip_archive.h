// Members of a zip archive, read in order; libzip behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtune {

// Not thread-safe. All methods throw Error(data) with the archive's path.
class ZipArchive {
 public:
  // Throws Error(data): missing, no zip archive, damaged.
  explicit ZipArchive(const std::filesystem::path& path);
  // An archive in memory, which must outlive this; `where` stands in messages.
  ZipArchive(std::span<const uint8_t> bytes, std::filesystem::path where);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::filesystem::path& where() const { return where_; }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;

  // A member being read, which must not outlive the archive; others may be read
  // beside it. Its claimed size was found
  // possible for its compressed size.
  class Member {
   public:
    Member(Member&&) noexcept;
    ~Member();
    uint64_t size() const { return size_; }
    // Fills `out`; throws if the member holds less or its check sum is wrong.
    void read(std::span<uint8_t> out);
    // Throws unless all was read and the check sum is right.
    void finish();

   private:
    friend class ZipArchive;
    struct File;
    Member(std::unique_ptr<File> file, uint64_t size,
           std::filesystem::path where);
    std::unique_ptr<File> file_;
    uint64_t size_;
    std::filesystem::path where_;
  };

  // REQUIRES: has(name). Throws: neither stored nor deflated, encrypted, claims
  // more than it can hold.
  Member open(const std::string& name);

 private:
  struct Archive;
  std::filesystem::path where_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace dtune
