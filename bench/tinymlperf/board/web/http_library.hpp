// cpp-httplib with the macro of its compiled library: with OpenSSL its request struct has one more member.
// The board itself speaks plain HTTP, by default to this machine alone.
#pragma once

#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <httplib.h>
