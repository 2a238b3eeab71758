@rem The npm scripts begin with "exec" so that no shell stands between npm and the server, where a SIGTERM would
@rem end (npm passes signals on to its own child only). Windows has no exec: cmd finds this file instead.
@%*
