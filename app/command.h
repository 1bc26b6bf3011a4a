// The subcommands of dtune: one visible table, one file each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/console.h"

namespace dtune {

// Runs a command whose arguments were parsed; returns the exit code.
using Action = std::function<int(const Console&)>;

struct Command {
  std::string name;
  std::string group;  // heading in the main help; "" hides it there
  std::string summary;
  // Declares the arguments; the action owns the variables they go to.
  Action (*declare)(Arguments&);
};

// In the order in which help shows them.
const std::vector<Command>& commands();
// The commands that help shows, with what each of them declares.
struct DeclaredCommand {
  std::string name;
  std::string summary;
  std::vector<ArgumentInfo> arguments;
};
std::vector<DeclaredCommand> declared_commands();
// Null where there is none of that name.
const Command* find_command(const std::string& name);

Action declare_run(Arguments& arguments);
Action declare_submit(Arguments& arguments);
Action declare_attach(Arguments& arguments);
Action declare_cancel(Arguments& arguments);
Action declare_resume(Arguments& arguments);
Action declare_plan(Arguments& arguments);
Action declare_validate(Arguments& arguments);
Action declare_init(Arguments& arguments);
Action declare_ask(Arguments& arguments);
Action declare_tell(Arguments& arguments);
Action declare_status(Arguments& arguments);
Action declare_best(Arguments& arguments);
Action declare_show(Arguments& arguments);
Action declare_explain(Arguments& arguments);
Action declare_replay(Arguments& arguments);
Action declare_show_batch(Arguments& arguments);
Action declare_report(Arguments& arguments);
Action declare_ls(Arguments& arguments);
Action declare_export(Arguments& arguments);
Action declare_import(Arguments& arguments);
Action declare_eval(Arguments& arguments);
Action declare_predict(Arguments& arguments);
Action declare_record(Arguments& arguments);
Action declare_serve(Arguments& arguments);
Action declare_simulate(Arguments& arguments);
Action declare_surrogate(Arguments& arguments);
Action declare_speeds(Arguments& arguments);
Action declare_bench(Arguments& arguments);
Action declare_doctor(Arguments& arguments);
Action declare_help(Arguments& arguments);
Action declare_image(Arguments& arguments);
Action declare_keygen(Arguments& arguments);
Action declare_token(Arguments& arguments);
Action declare_completion(Arguments& arguments);
Action declare_agent(Arguments& arguments);
Action declare_worker(Arguments& arguments);
Action declare_rank(Arguments& arguments);
Action declare_pod(Arguments& arguments);
Action declare_train(Arguments& arguments);
Action declare_guard(Arguments& arguments);

}  // namespace dtune
