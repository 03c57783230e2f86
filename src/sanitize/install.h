// The one sanitizer of the process, where GRADUS_SANITIZE asks for it; nullptr elsewhere.
#pragma once

namespace gradus::sanitize {

class Sanitizer;
Sanitizer* the_sanitizer() noexcept;

}  // namespace gradus::sanitize
