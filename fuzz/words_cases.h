// What reads text that somebody wrote: each with its oracle.
#pragma once

#include <string>

namespace gradus::fuzz {

void try_option(const std::string& text);        // name=value, as gradusSetOption takes it
void try_json(const std::string& text);          // a configuration file of aclInit
void try_arguments(const std::string& text);     // the small grammars of the tool: assignments, shapes, expressions
void try_call(const std::string& text);          // operator and words of `gradus run`
void try_names(const std::string& text);         // operator and argument names of the call by name
void try_command_line(const std::string& text);  // commands that write nothing and run no other program

}  // namespace gradus::fuzz
