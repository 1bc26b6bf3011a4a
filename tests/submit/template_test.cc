#include "dtune/submit/template.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

TemplateValues template_values() {
  TemplateValues values;
  values.texts = {{"name", "it's one"}, {"count", "3"}, {"empty", ""}};
  values.lists = {{"words", {"a", "b c"}}};
  values.raw = {"first", "second"};
  return values;
}

std::string in_shell(const std::string& text) {
  return render_template({"t.sh", text, TemplateLanguage::shell},
                         template_values());
}

std::string template_error(const std::string& text) {
  try {
    in_shell(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a value in a shell's template stays one word") {
  CHECK(in_shell("echo {{name}} {{count!}}\n") == "echo 'it'\\''s one' 3\n");
  CHECK(in_shell("exec {{words*}}") == "exec a 'b c'\n");
  CHECK(in_shell("#SBATCH --job-name={{name}}") ==
        "#SBATCH --job-name=it's one\n");
}

TEST_CASE("a value in JSON or YAML stays one string") {
  TemplateValues values = template_values();
  values.texts["name"] = "a\"b\n";
  const Template source{"t.yaml", "n: {{name}}\nw: {{words*}}",
                        TemplateLanguage::json};
  CHECK(render_template(source, values) ==
        "n: \"a\\\"b\\n\"\nw: [\"a\", \"b c\"]\n");
}

TEST_CASE("parts without a value are left out, the user's lines are put in") {
  CHECK(in_shell("{{if empty}}\n{{if name}}\nno\n{{end}}\n{{end}}\nyes") ==
        "yes\n");
  CHECK(in_shell("{{if words}}\n{{if count}}\nboth\n{{end}}\n{{end}}") ==
        "both\n");
  CHECK(in_shell("a:\n  {{raw}}\nb") == "a:\n  first\n  second\nb\n");
}

TEST_CASE("what is wrong in a template is said with its place") {
  CHECK(template_error("x\n  {{nme}}") ==
        "t.sh:2:5: there is no value 'nme', did you mean 'name'? (count, "
        "empty, name, words)");
  CHECK(template_error("{{if nme}}\n{{end}}").starts_with("t.sh:1:6: there"));
  CHECK(template_error("{{name") == "t.sh:1:1: '{{' has no '}}'");
  CHECK(template_error("{{end}}") == "t.sh:1:1: {{end}} has no {{if}}");
  CHECK(template_error("{{if name}}") == "t.sh:1:1: {{if}} has no {{end}}");
}
