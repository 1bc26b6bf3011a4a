#include "dtune/review/report_page.h"

#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

unsigned digit_of(char hex) {
  return static_cast<unsigned>(hex <= '9' ? hex - '0' : hex - 'a' + 10);
}

// As policies write a hash. REQUIRES: hexadecimal digits, a SHA-256's 64.
std::string base64_of(std::string_view hex) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned bits = 0, held = 0;
  for (const char c : hex) {
    bits = bits << 4 | digit_of(c);
    held += 4;
    if (held < 6) continue;
    held -= 6;
    text += kLetters[bits >> held & 63];
  }
  if (held > 0) text += kLetters[bits << (6 - held) & 63];
  return text.append((4 - text.size() % 4) % 4, '=');
}

}  // namespace

namespace {

// `more`: directives beside those that every page has; `tags`: further ones.
std::string head(std::string_view title, const std::string& more,
                 const char* tags = "") {
  const PagePart style = page_style();
  return fmt::format(
      R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {}style-src 'sha256-{}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="dtune {}">
<title>{}</title>
<style>{}</style>
{}</head>
)",
      more, base64_of(style.sha256), DTUNE_VERSION, escape_markup(title),
      style.text, tags);
}

std::string list_row(const StudyListing& study, size_t number) {
  if (!study.problem.empty()) {
    return fmt::format(
        "<tr><td>{}</td><td class=\"wide\" colspan=\"5\">{}</td></tr>\n",
        escape_markup(study.database), escape_markup(printable(study.problem)));
  }
  const bool stopped = study.row.state == StudyState::running && !study.held;
  return fmt::format(
      "<tr><td><a href=\"study/{}\">{}</a></td><td>{}</td><td>{}</td>"
      "<td class=\"number\">{}</td><td class=\"number\">{}</td>"
      "<td class=\"number\">{}</td></tr>\n",
      number, escape_markup(study.database), escape_markup(study.row.name),
      stopped ? "stopped" : to_string(study.row.state),
      format_count(study.trials), format_seconds(study.row.searched_seconds),
      study.best
          ? format_metric(*study.best) + " " + escape_markup(study.row.metric)
          : "");
}

}  // namespace

std::string report_page(std::span<const std::string> studies,
                        std::string_view title, PageUse use) {
  const PagePart script = page_script();
  std::string data;
  for (const std::string& study : studies) {
    if (!data.empty()) data += ",\n";
    data += study;
  }
  const std::string policy =
      fmt::format("script-src 'sha256-{}'; {}", base64_of(script.sha256),
                  use == PageUse::served ? "connect-src 'self'; " : "");
  return head(title, policy) + fmt::format(
                                   R"(<body>
<noscript>This report is drawn by its own script, which is switched off here.</noscript>
<script type="application/json" id="data">[{}]</script>
<script>{}</script>
</body>
</html>
)",
                                   data, script.text);
}

std::string studies_page(const std::vector<StudyListing>& studies,
                         std::string_view folder) {
  std::string rows;
  for (size_t i = 0; i < studies.size(); ++i) {
    rows += list_row(studies[i], i + 1);
  }
  // The list has no script to hear of changes.
  return head(folder, "", "<meta http-equiv=\"refresh\" content=\"10\">\n") +
         fmt::format(
             R"(<body>
<header class="head"><h1>{}</h1></header>
<section><table><thead><tr><th>file</th><th>study</th><th>state</th><th class="number">trials</th><th class="number">time</th><th class="number">best</th></tr></thead>
<tbody>
{}</tbody></table></section>
</body>
</html>
)",
             escape_markup(folder), rows);
}

}  // namespace dtune
