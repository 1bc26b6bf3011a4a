// preload.cc, for LD_PRELOAD; "" where a sanitizer's runtime has to come first.
#pragma once

#include <string>

namespace dtune {

inline std::string preload() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "";
#else
  return DTUNE_PRELOAD;
#endif
}

inline constexpr const char* kNoPreload =
    "under a sanitizer nothing else can be loaded first";

}  // namespace dtune
