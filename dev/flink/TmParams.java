import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.runtime.clusterframework.TaskExecutorProcessUtils;
import org.apache.flink.runtime.util.config.memory.ProcessMemoryUtils;

/**
 * Prints what a TaskManager insists on being told for the configuration folder in the first argument: its JVM flags
 * (first line) and its memory pools as -D options (second line). Needs nothing but Flink's jars.
 */
public class TmParams {
    public static void main(String[] arguments) {
        var configuration = GlobalConfiguration.loadConfiguration(arguments[0]);
        var process = TaskExecutorProcessUtils.processSpecFromConfig(configuration);
        System.out.println(ProcessMemoryUtils.generateJvmParametersStr(process));
        System.out.println(TaskExecutorProcessUtils.generateDynamicConfigsStr(process));
    }
}
