package io.weir.jobs;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The files by which a finished job can be checked: {@code part-SUBTASK-ATTEMPT} from the counters and {@code split-N}
 * from the source. Each appears whole or not at all.
 */
final class ResultFolder {
    private ResultFolder() {}

    static void writePart(Path folder, int subtask, int attempt, String text) throws IOException {
        replace(folder.resolve("part-" + subtask + "-" + attempt), text);
    }

    /**
     * Removes what earlier executions left: each subtask its own parts, the first one also those of subtasks that no
     * longer exist. So in the end there is one part for each subtask of the last execution.
     */
    static void removeParts(Path folder, int subtask, int parallelism) throws IOException {
        Files.createDirectories(folder);
        try (DirectoryStream<Path> parts = Files.newDirectoryStream(folder, "part-*")) {
            for (Path part : parts) {
                int owner = Integer.parseInt(part.getFileName().toString().split("-")[1]);
                if (owner == subtask || (subtask == 0 && owner >= parallelism)) {
                    Files.deleteIfExists(part);
                }
            }
        }
    }

    static void replace(Path file, String text) throws IOException {
        Files.createDirectories(file.getParent());
        Path temporary = file.resolveSibling("." + file.getFileName() + ".tmp");
        Files.writeString(temporary, text);
        Files.move(temporary, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }
}
