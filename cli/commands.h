// The subcommands. Each adds itself to the application and leaves its exit code in `exit`.
#pragma once

#include <CLI/CLI.hpp>

namespace gradus::cli {

struct Session {
    bool json = false;  // --json, of every subcommand
    int exit = 0;
};

void add_list(CLI::App& app, Session& session);
void add_describe(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_check(CLI::App& app, Session& session);
void add_diff(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_info(CLI::App& app, Session& session);
void add_sanitize(CLI::App& app, Session& session);

}  // namespace gradus::cli
