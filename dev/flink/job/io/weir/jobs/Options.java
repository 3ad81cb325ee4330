package io.weir.jobs;

import java.util.HashMap;
import java.util.Map;

/** Program arguments of the form {@code --name value}; whatever is not asked for at the end is refused. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] arguments) {
        if (arguments.length % 2 != 0) {
            throw new IllegalArgumentException("arguments come in pairs of --name and value, got " + arguments.length);
        }
        for (int i = 0; i < arguments.length; i += 2) {
            if (!arguments[i].startsWith("--")) {
                throw new IllegalArgumentException("expected --name, got '" + arguments[i] + "'");
            }
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String text(String name, String ifAbsent) {
        String value = values.remove(name);
        return value == null ? ifAbsent : value;
    }

    double number(String name, double ifAbsent) {
        String value = values.remove(name);
        return value == null ? ifAbsent : Double.parseDouble(value);
    }

    int whole(String name, int ifAbsent) {
        String value = values.remove(name);
        return value == null ? ifAbsent : Integer.parseInt(value);
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(text(name, "false"));
    }

    void refuseUnknown() {
        if (!values.isEmpty()) {
            throw new IllegalArgumentException("unknown options: " + values.keySet());
        }
    }
}
